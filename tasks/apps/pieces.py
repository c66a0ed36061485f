"""Building blocks of tasks: questions to an app, changes that store the answer to a question, and other changes.

Each piece chooses what it is about, does its job by calls of the real APIs, and describes the job in words. The calls
give the task's solution, its answer and the required final state.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym import TaskError

from . import words

Step = tuple[str, str, dict[str, Any]]


@dataclass(slots=True)
class Draft:
    """A task under construction: its random stream, and the records as the pieces drawn so far have changed them.

    Attributes:
        environment: an opened environment of apps; `call_api` works as for an agent.
        steps: the calls so far: app, API, arguments.
    """

    rng: random.Random
    environment: Any
    steps: list[Step] = field(default_factory=list)

    def call(self, app: str, api: str, **arguments: Any) -> Any:
        """Call an API, and record the call as a step of the solution."""
        self.steps.append((app, api, arguments))
        return self.environment.call_api(app, api, arguments)

    def pick(self, table: str, **equal: Any) -> Any:
        """Return a row of a table at random."""
        return self.rng.choice(list(self.environment.store.rows(table, **equal)))

    def label(self) -> str:
        """Return a name for a new item, such as `honey 417`."""
        return f"{self.rng.choice(words.ITEMS)} {self.rng.randrange(100, 1_000)}"

    def search(self, app: str, text: str, key: str, **arguments: Any) -> Any:
        """Search an app, and return the result whose `key` equals the text."""
        argument = {"contacts": "name"}.get(app, "text")
        results = self.call(app, "search", **{argument: text}, **arguments)["results"]
        return choose(results, key, text)

    def order_of(self, product: str) -> Any:
        """Return the first order in the shop that contains a product."""
        product_id = self.search("shop", product, "name")["id"]
        return self.call("shop", "orders", product_id=product_id)["results"][0]


def choose(results: Sequence[Any], key: str, value: Any) -> Any:
    """Return the first result with this value. Raises: TaskError if none has it."""
    for row in results:
        if row[key] == value:
            return row
    raise TaskError(f"No result has {key} = {value!r}.")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a task.

    Attributes:
        apps: the apps that it needs. The first is the one that counts in HELD_OUT_PAIRS.
        write: chooses and does the job. A question returns (description of the answer, answer), a change the sentence
            that asks for it. A change in SINKS is called with the description and the value of the answer that it
            stores.
    """

    apps: tuple[str, ...]
    write: Callable[..., Any]


# ---- questions


def _contact(draft: Draft) -> tuple[str, str]:
    column = draft.rng.choice(("phone", "birthday", "city", "email"))
    person = draft.pick("contacts")
    draft.search("contacts", person["name"], "name")
    what = {"phone": "phone number", "email": "mail address"}.get(column, column)
    return f"the {what} of {person['name']}", person[column]


def _appointment(draft: Draft) -> tuple[str, str]:
    title, column = draft.rng.choice(words.APPOINTMENTS), draft.rng.choice(("date", "time", "location"))
    return f"the {column} of my {title}", draft.search("calendar", title, "title")[column]


def _spent(draft: Draft) -> tuple[str, str]:
    party, month = draft.rng.choice((*words.SHOPS, *words.UTILITIES)), draft.rng.randrange(1, 13)
    since, until = f"2025-{month:02d}-01", f"2025-{month:02d}-{28 if month == 2 else 30}"
    rows = draft.call("bank", "payments", party=party, since=since, until=until)["results"]
    return f"the amount I paid {party} in {words.MONTHS[month - 1]} 2025", str(-sum(row["amount"] for row in rows))


def _price(draft: Draft) -> tuple[str, str]:
    product = draft.pick("products")["name"]
    column = draft.rng.choice(("price", "stock"))
    what = "price of one" if column == "price" else "number in stock of the"
    return f"the {what} {product}", str(draft.search("shop", product, "name")[column])


def _total(draft: Draft) -> tuple[str, str]:
    order = draft.pick("orders")
    product = draft.environment.store.get("products", order["product_id"])["name"]
    return f"the total of my order of the {product}", str(draft.order_of(product)["total"])


def _reference(draft: Draft) -> tuple[str, str]:
    subject = f"Your {draft.rng.choice(words.APPOINTMENTS)}"
    mail = draft.call("mail", "read", mail_id=draft.search("mail", subject, "subject")["id"])
    return f"the reference in the mail {subject!r}", mail["body"].removesuffix(".").rpartition(" ")[2]


def _note(draft: Draft) -> tuple[str, str]:
    title = draft.rng.choice(words.TOPICS)
    lines = draft.call("notes", "read", note_id=draft.search("notes", title, "title")["id"])["body"].split("\n")
    what, value = draft.rng.choice((("last line", lines[-1]), ("first line", lines[0])))
    return f"the {what} of my note {title!r}", value


def _file(draft: Draft) -> tuple[str, str]:
    if draft.rng.random() < 0.5:
        row, what = draft.pick("files"), "last word"
    else:
        row, what = draft.pick("files"), "first word"
    name = row["path"].rpartition("/")[2]
    results = draft.call("files", "search", text=name)["results"]
    text = draft.call("files", "read", path=results[0]["path"])
    return f"the {what} in the file {name}", text.split()[-1 if what == "last word" else 0]


def _song(draft: Draft) -> tuple[str, str]:
    title, column = draft.pick("songs")["title"], draft.rng.choice(("artist", "seconds"))
    what = "artist" if column == "artist" else "length in seconds"
    return f"the {what} of the song {title!r}", str(draft.search("music", title, "title")[column])


# ---- changes that store an answer


def _send(draft: Draft, what: str, value: str) -> str:
    person, subject = draft.pick("contacts")["name"], draft.label()
    to = draft.search("contacts", person, "name")["email"]
    draft.call("mail", "send", to=to, subject=subject, body=value)
    return f"Send {person} a mail with the subject {subject!r} whose text is only {what}."


def _write_note(draft: Draft, what: str, value: str) -> str:
    title = draft.label()
    draft.call("notes", "add", title=title, body=value)
    return f"Write a note with the title {title!r} whose text is only {what}."


def _append(draft: Draft, what: str, value: str) -> str:
    title = draft.rng.choice(words.TOPICS)
    draft.call("notes", "append", note_id=draft.search("notes", title, "title")["id"], line=value)
    return f"Add to my note {title!r} a last line that is only {what}."


def _plan(draft: Draft, what: str, value: str) -> str:
    title, (date, time) = draft.label(), _moment(draft.rng)
    draft.call("calendar", "add", date=date, time=time, title=title, location=value)
    return f"Plan an event {title!r} on {date} at {time} whose location is only {what}."


def _pay(draft: Draft, what: str, value: str) -> str:
    person, amount = draft.pick("contacts")["name"], draft.rng.randrange(5, 200)
    draft.call("bank", "pay", party=person, amount=amount, text=value)
    return f"Pay {person} {amount} crowns with a text that is only {what}."


def _write_file(draft: Draft, what: str, value: str) -> str:
    path = f"{draft.rng.choice(words.FOLDERS)}/{draft.label().replace(' ', '-')}.txt"
    draft.call("files", "write", path=path, content=value)
    return f"Write a file {path} whose text is only {what}."


def _playlist(draft: Draft, what: str, value: str) -> str:
    draft.call("music", "create_playlist", name=value)
    return f"Make an empty playlist whose name is only {what}."


# ---- other changes


def _reschedule(draft: Draft) -> str:
    title, (date, time) = draft.rng.choice(words.APPOINTMENTS), _moment(draft.rng)
    draft.call("calendar", "move", event_id=draft.search("calendar", title, "title")["id"], date=date, time=time)
    return f"Move my {title} to {date} at {time}."


def _cancel_event(draft: Draft) -> str:
    title = draft.rng.choice(words.APPOINTMENTS)
    draft.call("calendar", "cancel", event_id=draft.search("calendar", title, "title")["id"])
    return f"Cancel my {title} in the calendar."


def _file_mail(draft: Draft) -> str:
    subject, removes = draft.rng.choice((*words.TOPICS, *words.APPOINTMENTS)), draft.rng.random() < 0.5
    subject = subject if subject in words.TOPICS else f"Your {subject}"
    mail_id = draft.search("mail", subject, "subject")["id"]
    if removes:
        draft.call("mail", "delete", mail_id=mail_id)
        return f"Delete the mail {subject!r}."
    draft.call("mail", "move", mail_id=mail_id, folder="archive")
    return f"Move the mail {subject!r} to the archive."


def _stop(draft: Draft) -> str:
    party = draft.pick("standing_orders")["party"]
    rows = draft.call("bank", "standing_orders")["results"]
    draft.call("bank", "stop_standing_order", order_id=choose(rows, "party", party)["id"])
    return f"End the standing order for {party}."


def _buy(draft: Draft) -> str:
    product, quantity = draft.pick("products")["name"], draft.rng.randrange(1, 4)
    draft.call("shop", "buy", product_id=draft.search("shop", product, "name")["id"], quantity=quantity)
    return f"Order {quantity} of the {product} in the shop."


def _cancel_order(draft: Draft) -> str:
    order = draft.pick("orders", status="ordered")
    product = draft.environment.store.get("products", order["product_id"])["name"]
    draft.call("shop", "cancel", order_id=draft.order_of(product)["id"])
    return f"Cancel my order of the {product}."


def _change_contact(draft: Draft) -> str:
    person = draft.pick("contacts")
    column = draft.rng.choice(("city", "phone"))
    values = {
        "city": draft.rng.choice([city for city in words.CITIES if city != person["city"]]),
        "phone": f"0{draft.rng.randrange(10, 99)} {draft.rng.randrange(100_000, 1_000_000)}",
    }
    contact_id = draft.search("contacts", person["name"], "name")["id"]
    draft.call("contacts", "update", contact_id=contact_id, field=column, value=values[column])
    return f"Change the {column} of {person['name']} to {values[column]}."


def _delete_note(draft: Draft) -> str:
    title = draft.rng.choice(words.TOPICS)
    draft.call("notes", "delete", note_id=draft.search("notes", title, "title")["id"])
    return f"Delete my note {title!r}."


def _move_file(draft: Draft) -> str:
    row = draft.pick("files")
    name = row["path"].rpartition("/")[2]
    new_path = f"{draft.rng.choice(('old', 'shared'))}/{draft.label().replace(' ', '-')}.txt"
    path = draft.call("files", "search", text=name)["results"][0]["path"]
    draft.call("files", "move", path=path, new_path=new_path)
    return f"Move the file {name} to {new_path}."


def _add_song(draft: Draft) -> str:
    title, playlist = draft.pick("songs")["title"], draft.rng.choice(words.PLAYLISTS)
    song_id = draft.search("music", title, "title")["id"]
    playlist_id = choose(draft.call("music", "playlists")["results"], "name", playlist)["id"]
    draft.call("music", "add_song", playlist_id=playlist_id, song_id=song_id)
    return f"Add the song {title!r} to my playlist {playlist!r}."


def _moment(rng: random.Random) -> tuple[str, str]:
    return (
        f"2026-{rng.randrange(2, 7):02d}-{rng.randrange(1, 29):02d}",
        f"{rng.randrange(8, 19):02d}:{rng.choice((0, 30)):02d}",
    )


QUESTIONS = (
    Piece(("contacts",), _contact),
    Piece(("calendar",), _appointment),
    Piece(("bank",), _spent),
    Piece(("shop",), _price),
    Piece(("shop",), _total),
    Piece(("mail",), _reference),
    Piece(("notes",), _note),
    Piece(("files",), _file),
    Piece(("music",), _song),
)
SINKS = (
    Piece(("mail", "contacts"), _send),
    Piece(("notes",), _write_note),
    Piece(("notes",), _append),
    Piece(("calendar",), _plan),
    Piece(("bank",), _pay),
    Piece(("files",), _write_file),
    Piece(("music",), _playlist),
)
SHORT = (
    Piece(("calendar",), _cancel_event),
    Piece(("mail",), _file_mail),
    Piece(("shop", "bank"), _buy),
    Piece(("calendar", "notes"), lambda draft: _append(draft, *_appointment(draft))),
    Piece(("shop", "notes"), lambda draft: _append(draft, *_price(draft))),
)
"""Jobs about things that are the same in all records, so that a tiny model has no names to spell."""
ACTIONS = (
    Piece(("calendar",), _reschedule),
    Piece(("calendar",), _cancel_event),
    Piece(("mail",), _file_mail),
    Piece(("bank",), _stop),
    Piece(("shop", "bank"), _buy),
    Piece(("shop", "bank"), _cancel_order),
    Piece(("contacts",), _change_contact),
    Piece(("notes",), _delete_note),
    Piece(("files",), _move_file),
    Piece(("music",), _add_song),
)
