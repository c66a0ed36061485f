"""A forum: topics with threads, votes, answers and new threads."""

from __future__ import annotations

from typing import Any

from .app import App, Fields, area, button, choice, entry, link, table, text

_MAX_NEW_POSTS = 50


class Forum(App):
    """`data`: topics, and threads with their posts."""

    title = "Commons"
    links = (("/", "Threads"), ("/new", "New thread"))

    def get_home(self, query: Fields) -> str:
        topic, sort = query.get("topic", ""), query.get("sort", "new")
        threads = [thread for thread in self.state["threads"] if topic in ("", thread["topic"])]
        threads.sort(key=lambda thread: -thread["votes"] if sort == "votes" else -int(thread["id"]))
        body = (
            "<form method=get action=/>"
            + choice("topic", "Topic", [("", "All"), *self.state["topics"]], topic)
            + choice("sort", "Sort by", [("new", "Newest"), ("votes", "Votes")], sort)
            + "<button>Show</button></form>"
        )
        rows = [
            (link(f"/thread?id={t['id']}", t["title"]), text(t["author"]), str(t["votes"]), str(len(t["posts"])))
            for t in threads
        ]
        return self.page("Threads", body + table(("Title", "Author", "Votes", "Answers"), rows))

    def get_thread(self, query: Fields) -> str:
        thread = self._thread(query)
        if thread is None:
            return self.page("Not found", "<p>There is no such thread.</p>")
        number = thread["id"]
        posts = "".join(f"<p><b>{text(post['author'])}</b>: {text(post['text'])}</p>" for post in thread["posts"])
        body = (
            f"<p>{text(thread['topic'])}, by {text(thread['author'])}, {thread['votes']} votes</p>"
            f"<p>{text(thread['text'])}</p>"
            + button("/vote", "Take back vote" if number in self.state["voted"] else "Vote up", id=number)
            + f"<h2>Answers</h2>{posts}<form method=post action=/reply><input type=hidden name=id value={number}>"
            + area("text", "Your answer")
            + "<button>Answer</button></form>"
        )
        return self.page(thread["title"], body)

    def post_vote(self, form: Fields) -> str:
        thread = self._thread(form)
        if thread is None:
            return "/"
        voted = self.state["voted"]
        if thread["id"] in voted:
            voted.remove(thread["id"])
            thread["votes"] -= 1
        else:
            voted.append(thread["id"])
            thread["votes"] += 1
        return f"/thread?id={thread['id']}"

    def post_reply(self, form: Fields) -> str:
        thread = self._thread(form)
        if thread is None:
            return "/"
        if form.get("text", "").strip() and len(thread["posts"]) < _MAX_NEW_POSTS:
            thread["posts"].append({"author": "you", "text": form["text"][:2000]})
        return f"/thread?id={thread['id']}"

    def get_new(self, query: Fields, note: str = "") -> str:
        body = (
            "<form method=post action=/new>"
            + choice("topic", "Topic", self.state["topics"], query.get("topic", ""))
            + entry("title", "Title", query.get("title", ""), size=40)
            + area("text", "Text", query.get("text", ""))
            + "<button>Publish</button></form>"
        )
        return self.page("New thread", body, note)

    def post_new(self, form: Fields) -> str:
        title, topic = form.get("title", "").strip(), form.get("topic")
        if not title or topic not in self.state["topics"]:
            return self.get_new(form, "A thread needs a topic and a title.")
        threads = self.state["threads"]
        if len(threads) < len(self.start["threads"]) + _MAX_NEW_POSTS:
            threads.append(
                {
                    "id": str(1 + max(int(thread["id"]) for thread in threads)),
                    "topic": topic,
                    "title": title[:200],
                    "author": "you",
                    "text": form.get("text", "")[:2000],
                    "votes": 0,
                    "posts": [],
                }
            )
        return f"/thread?id={threads[-1]['id']}"

    def effects(self) -> dict[str, Any]:
        """Return the votes given, and the answers and threads written."""
        known = {thread["id"] for thread in self.start["threads"]}
        threads = self.state["threads"]
        changes = {
            "voted": sorted(self.state["voted"]),
            "answers": [
                [thread["id"], " ".join(post["text"].split())]
                for thread in threads
                for post in thread["posts"]
                if post["author"] == "you"
            ],
            "threads": [
                {key: " ".join(thread[key].split()) for key in ("topic", "title", "text")}
                for thread in threads
                if thread["id"] not in known
            ],
        }
        return {key: value for key, value in changes.items() if value}

    def _thread(self, query: Fields) -> dict[str, Any] | None:
        return next((thread for thread in self.state["threads"] if thread["id"] == query.get("id")), None)
