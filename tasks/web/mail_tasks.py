"""Tasks in the mailbox."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from .plan import Step, TaskPlan, WebTemplate, button, chosen, done, link, typed
from .words import address_of, words_of

Data = Mapping[str, Any]
WISHES = ("Thank you.", "I agree.", "Please call me.", "See you there.", "That does not suit me.", "Count me in.")
_FOLDERS = ("Archive", "Travel", "Bills")


def _open(message: Data) -> tuple[Step, ...]:
    return (("seek", f'link "{message["subject"]}"', 'link "Older"'),)


def _name(message: Data) -> str:
    return str(message["from"]).partition(" <")[0]


def _address(message: Data) -> str:
    return str(message["from"]).partition("<")[2].rstrip(">")


def _marking(prompt: str, press: str, key: str, value: Any) -> Callable[[random.Random, Data, int], TaskPlan]:
    def draw(rng: random.Random, data: Data, seed: int) -> TaskPlan:
        message, wrong_message = rng.sample(data["messages"], 2)
        return TaskPlan(
            prompt.format(name=_name(message), subject=message["subject"]),
            (*_open(message), button(press), done()),
            {key: {message["id"]: value}},
            wrong=(*_open(wrong_message), button(press), done()),
        )

    return draw


def _move(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    message, folder = rng.choice(data["messages"]), rng.choice(_FOLDERS)
    wrong = rng.choice([f for f in _FOLDERS if f != folder])
    return TaskPlan(
        f'Move the message "{message["subject"]}" to the folder {folder}.',
        (*_open(message), chosen("Move to", folder), button("Move"), done()),
        {"moved": {message["id"]: folder}},
        wrong=(*_open(message), chosen("Move to", wrong), button("Move"), done()),
    )


def _reply(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    message, (text, wrong) = rng.choice(data["messages"]), rng.sample(WISHES, 2)
    start = (*_open(message), link("Reply"))
    return TaskPlan(
        f'Reply to "{message["subject"]}" from {_name(message)}: {text}',
        (*start, typed("Text", text), button("Send"), done()),
        {"sent": [{"to": _address(message), "subject": f"Re: {message['subject']}", "body": text}]},
        wrong=(*start, typed("Text", wrong), button("Send"), done()),
    )


def _write(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    words = words_of(seed)
    person, matter, (text, wrong) = rng.choice(words.people), rng.choice(words.matters), rng.sample(WISHES, 2)
    subject, to = f"On {matter}", address_of(person, words)
    start = (link("Write"), typed("To", to), typed("Subject", subject))
    return TaskPlan(
        f'Write to {to} with the subject "{subject}": {text}',
        (*start, typed("Text", text), button("Send"), done()),
        {"sent": [{"to": to, "subject": subject, "body": text}]},
        wrong=(*start, typed("Text", wrong), button("Send"), done()),
    )


def _reference(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    message = rng.choice(data["messages"])
    match = re.search(r"reference is (\d+)", message["body"])
    number = match[1] if match else ""
    return TaskPlan(
        f'Which reference does the message "{message["subject"]}" give?',
        (*_open(message), done(number)),
        {},
        number,
        (*_open(message), done(message["date"])),
    )


def _forward(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    words = words_of(seed)
    message, (person, wrong_person) = rng.choice(data["messages"]), rng.sample(words.people, 2)
    start = (*_open(message), link("Forward"))
    return TaskPlan(
        f'Forward the message "{message["subject"]}" to {address_of(person, words)}.',
        (*start, typed("To", address_of(person, words)), button("Send"), done()),
        {"sent": [{"to": address_of(person, words), "subject": f"Fwd: {message['subject']}", "body": message["body"]}]},
        wrong=(*start, typed("To", address_of(wrong_person, words)), button("Send"), done()),
    )


def _latest(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    name = _name(rng.choice(data["messages"]))
    theirs = [message for message in data["messages"] if _name(message) == name]
    latest, wrong = theirs[-1], next(m for m in reversed(data["messages"]) if _name(m) != name)
    return TaskPlan(
        f"Star the latest message from {name}.",
        (*_open(latest), button("Star"), done()),
        {"starred": {latest["id"]: True}},
        wrong=(*_open(wrong), button("Star"), done()),
    )


MAIL = (
    WebTemplate("star", "mail", _marking('Star the message "{subject}" from {name}.', "Star", "starred", True)),
    WebTemplate("delete", "mail", _marking('Delete the message "{subject}" from {name}.', "Delete", "moved", "Trash")),
    WebTemplate("move", "mail", _move, difficulty=2),
    WebTemplate("reply", "mail", _reply, difficulty=2),
    WebTemplate("write", "mail", _write, difficulty=2),
    WebTemplate("reference", "mail", _reference),
    WebTemplate("forward", "mail", _forward, held_out=True, difficulty=2),
    WebTemplate("star_latest", "mail", _latest, held_out=True, difficulty=2),
)
