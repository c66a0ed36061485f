"""The texts of requests, and the commands that fulfil them."""

from __future__ import annotations

import random

from agentgym import Task

from ..request_forms import Parts, RequestForms

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


def _mistaken(task: Task, kind: str, parts: Parts, rng: random.Random) -> Parts:
    """Return the parts with one replaced: a word by another word, an existing file by another file of the start, or a
    file that the request makes by any other name.
    """
    part = rng.choice(list(parts))
    is_new = part == "target" or kind == "put"
    choices = WORDS if part == "word" else NAMES if is_new else sorted(task.parameters["files"])
    return {**parts, part: rng.choice([choice for choice in choices if choice not in parts.values()])}


REQUESTS = RequestForms(FORMS, tool="bash", argument="command", mistaken=_mistaken)
