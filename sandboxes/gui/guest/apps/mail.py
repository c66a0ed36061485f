"""A mailbox: folders, search, reading, starring, moving, deleting, replying, forwarding, writing."""

from __future__ import annotations

from typing import Any

from .app import App, Fields, area, button, choice, entry, link, parse_whole_number, table, text

FOLDERS = ("Inbox", "Archive", "Travel", "Bills", "Trash")
_PER_PAGE = 10


class Mail(App):
    """`data`: messages and the owner's own address."""

    title = "Post"
    links = (
        ("/", "Inbox"),
        ("/?folder=Archive", "Archive"),
        ("/?folder=Travel", "Travel"),
        ("/?folder=Bills", "Bills"),
        ("/?folder=Trash", "Trash"),
        ("/sent", "Sent"),
        ("/write", "Write"),
    )

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__({"sent": [], **data})

    def get_home(self, query: Fields) -> str:
        """Return a folder, or what a search finds in all folders."""
        folder = requested if (requested := query.get("folder", "")) in FOLDERS else "Inbox"
        words = query.get("q", "").lower().split()
        messages = [
            message
            for message in reversed(self.state["messages"])
            if (words or message["folder"] == folder)
            and all(word in f"{message['from']} {message['subject']} {message['body']}".lower() for word in words)
        ]
        page = parse_whole_number(query.get("page", "1"), 1, 99) or 1
        rows = []
        for message in messages[(page - 1) * _PER_PAGE : page * _PER_PAGE]:
            name = message["from"].partition(" <")[0]
            state = " ".join(word for word in ("starred", "unread") if message[word])
            rows.append(
                (link(f"/message?id={message['id']}", message["subject"]), text(name), text(message["date"]), state)
            )
        body = f"<form method=get action=/>{entry('q', 'Search', query.get('q', ''))}<button>Search</button></form>"
        body += table(("Subject", "From", "Date", ""), rows) if rows else "<p>No messages.</p>"
        filters = f"folder={folder}&q={'+'.join(words)}"
        if page > 1:
            body += link(f"/?{filters}&page={page - 1}", "Newer") + " "
        if len(messages) > page * _PER_PAGE:
            body += link(f"/?{filters}&page={page + 1}", "Older")
        return self.page("Search" if words else folder, body)

    def get_message(self, query: Fields) -> str:
        message = self._message(query)
        if message is None:
            return self.page("Not found", "<p>There is no such message.</p>")
        message["unread"] = False
        number = message["id"]
        body = (
            f"<p>From: {text(message['from'])}<br>Date: {text(message['date'])}<br>"
            f"Folder: {text(message['folder'])}</p><p>{text(message['body'])}</p>"
            f"{link(f'/write?reply={number}', 'Reply')} {link(f'/write?forward={number}', 'Forward')}"
            + button("/star", "Remove star" if message["starred"] else "Star", id=number)
            + button("/delete", "Delete", id=number)
            + f"<form method=post action=/move><input type=hidden name=id value={number}>"
            + choice("folder", "Move to", FOLDERS, message["folder"])
            + "<button>Move</button></form>"
        )
        return self.page(message["subject"], body)

    def post_star(self, form: Fields) -> str:
        if message := self._message(form):
            message["starred"] = not message["starred"]
            return f"/message?id={message['id']}"
        return "/"

    def post_delete(self, form: Fields) -> str:
        if message := self._message(form):
            message["folder"] = "Trash"
        return "/"

    def post_move(self, form: Fields) -> str:
        message = self._message(form)
        if message and form.get("folder") in FOLDERS:
            message["folder"] = form["folder"]
        return "/"

    def get_write(self, query: Fields, note: str = "") -> str:
        """Return an empty letter, a reply or a forwarded message."""
        to, subject, body = query.get("to", ""), query.get("subject", ""), query.get("body", "")
        about = self._message({"id": query.get("reply", query.get("forward", ""))})
        if about is not None:
            answer = "reply" in query
            to = about["from"].partition("<")[2].rstrip(">") if answer else ""
            subject = ("Re: " if answer else "Fwd: ") + about["subject"]
            body = "" if answer else about["body"]
        form = (
            "<form method=post action=/send>"
            + entry("to", "To", to, size=40)
            + "<br>"
            + entry("subject", "Subject", subject, size=50)
            + area("body", "Text", body)
            + "<button>Send</button></form>"
        )
        return self.page("Write", form, note)

    def post_send(self, form: Fields) -> str:
        to = form.get("to", "").strip().lower()
        if to.count("@") != 1 or " " in to:
            return self.get_write(form, "Give one address to send it to.")
        if len(self.state["sent"]) < 50:
            self.state["sent"].append(
                {"to": to[:200], "subject": form.get("subject", "")[:500], "body": form.get("body", "")[:4000]}
            )
        return "/sent"

    def get_sent(self, query: Fields) -> str:
        rows = [(text(message["subject"]), text(message["to"])) for message in reversed(self.state["sent"])]
        return self.page("Sent", table(("Subject", "To"), rows) if rows else "<p>Nothing was sent.</p>")

    def effects(self) -> dict[str, Any]:
        """Return the messages that were sent, moved, starred or unstarred. Reading is not an effect."""
        before = {message["id"]: message for message in self.start["messages"]}
        now = self.state["messages"]
        changes = {
            "sent": sorted(
                ({key: " ".join(value.split()) for key, value in message.items()} for message in self.state["sent"]),
                key=str,
            ),
            "moved": {m["id"]: m["folder"] for m in now if m["folder"] != before[m["id"]]["folder"]},
            "starred": {m["id"]: m["starred"] for m in now if m["starred"] != before[m["id"]]["starred"]},
        }
        return {key: value for key, value in changes.items() if value}

    def _message(self, query: Fields) -> dict[str, Any] | None:
        return next((message for message in self.state["messages"] if message["id"] == query.get("id")), None)
