"""The words of a request, the command that does what it asks, and the two scripted players."""

from __future__ import annotations

import random
import re

from agentgym import Task

from ..horizon import Script, errs, request_player

WORDS = ("kiwi", "plum", "pear", "lime", "fig", "nut", "oat", "rye", "tea", "oil", "ham", "jam")
NAMES = (
    *("todo", "plan", "list", "log", "map", "memo", "menu", "page", "news", "bill", "song", "poem"),
    *("tape", "book", "card", "data", "diary", "draft", "index", "notes", "sheet", "table", "title", "tour"),
)
FORMS = {
    "put": ("Put {word} into {name}.", "echo {word} > {name}"),
    "append": ("Append {word} to {name}.", "echo {word} >> {name}"),
    "copy": ("Copy {name} to {target}.", "cp {name} {target}"),
    "rename": ("Rename {name} to {target}.", "mv {name} {target}"),
    "delete": ("Delete {name}.", "rm {name}"),
}
"""By kind of request: what is asked, and the command that does it."""
PATTERNS = {
    kind: re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(request)))
    for kind, (request, _) in FORMS.items()
}


def parsed(request: str) -> tuple[str, dict[str, str]]:
    """The kind of a request, and its words by their part. Raises: ValueError for a text that is no request."""
    for kind, pattern in PATTERNS.items():
        if match := pattern.fullmatch(request):
            return kind, match.groupdict()
    raise ValueError(f"{request!r} is no request of this set.")


def oracle(task: Task) -> Script:
    """Do what each request asks, read from its text alone."""
    return request_player(task, "bash", "command", lambda request, _: command(*parsed(request)))


def imperfect_oracle(task: Task) -> Script:
    """Write the same commands, but half of them with another word or another file's name in one place."""

    def act(request: str, turn: int) -> str:
        kind, parts = parsed(request)
        if (rng := errs(task, turn)) is not None:
            parts = _mistaken(kind, parts, sorted(task.parameters["files"]), rng)
        return command(kind, parts)

    return request_player(task, "bash", "command", act)


def command(kind: str, parts: dict[str, str]) -> str:
    """The command that does what a request asks."""
    return FORMS[kind][1].format(**parts)


def _mistaken(kind: str, parts: dict[str, str], files: list[str], rng: random.Random) -> dict[str, str]:
    """The same with one part replaced: a word by another word, a file that must exist by one that did at the start."""
    part = rng.choice(list(parts))
    is_new = part == "target" or kind == "put"
    choices = WORDS if part == "word" else NAMES if is_new else files
    return {**parts, part: rng.choice([choice for choice in choices if choice not in parts.values()])}
