"""The words of a request, the statement that does what it asks, and the two scripted players."""

from __future__ import annotations

import random
import re

from agentgym import Task

from ..horizon import Script, errs, request_player

ITEMS = ("fig", "nut", "tea", "oil", "rye", "oat", "ham", "jam")
CITIES = ("bern", "bonn", "cork", "lima", "oslo", "pisa", "riga", "rome")
FORMS = {
    "count": ("Count {item} in {city}.", "select {item} from stock where city='{city}'"),
    "which": ("Which city has {number} {item}?", "select city from stock where {item}={number}"),
    "set": ("Set {item} in {city} to {number}.", "update stock set {item}={number} where city='{city}'"),
    "add": ("Add {number} {item} in {city}.", "update stock set {item}={item}+{number} where city='{city}'"),
}
"""By kind of request: what is asked, and the statement that does it."""
PATTERNS = {
    kind: re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(request)))
    for kind, (request, _) in FORMS.items()
}


def parsed(request: str) -> tuple[str, dict[str, str]]:
    """The kind of a request, and its item, city and number. Raises: ValueError for a text that is no request."""
    for kind, pattern in PATTERNS.items():
        if match := pattern.fullmatch(request):
            return kind, match.groupdict()
    raise ValueError(f"{request!r} is no request of this set.")


def oracle(task: Task) -> Script:
    """Do what each request asks, read from its text alone."""
    return request_player(task, "sql", "statement", lambda request, _: statement(*parsed(request)))


def imperfect_oracle(task: Task) -> Script:
    """Write the same statements, but half of them about another item or another city."""

    def act(request: str, turn: int) -> str:
        kind, words = parsed(request)
        if (rng := errs(task, turn)) is not None:
            words = _mistaken(words, rng)
        return statement(kind, words)

    return request_player(task, "sql", "statement", act)


def statement(kind: str, words: dict[str, str]) -> str:
    """The statement that does what a request asks."""
    return FORMS[kind][1].format(**words)


def _mistaken(words: dict[str, str], rng: random.Random) -> dict[str, str]:
    """The same with another item, or with another city where there is one."""
    part, names = ("city", CITIES) if "city" in words and rng.random() < 0.5 else ("item", ITEMS)
    return {**words, part: rng.choice([name for name in names if name != words[part]])}
