"""Generate the sessions: requests about files, and the required result of each request."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from agentgym import Task, TaskSet

from ..generator import TaskSlot
from ..horizon import horizon_task_set
from .words import FORMS, NAMES, REQUESTS, WORDS

NAME = "code/chores-v1"
FILES = 12
"""The number of files at the start."""
KINDS = ("put", "put", "append", "copy", "rename", "delete")
"""Kinds of requests that do not depend on earlier ones.

`put` is twice as likely, because all others need a file that no recent request has changed.
"""
DEPENDENT = 0.45
"""The probability that a request depends on a recent change, if there is one. About a third of all requests do."""
LATELY = 4
"""For this many turns after a change, a request can depend on the change."""

Goal = dict[str, str | None]
"""Texts by file name; None for a file that must not exist."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Changes to the files of one folder by shell commands, one request a turn, over 2 to 32 turns.

    The seed chooses the files and the requests.

    Held-out tasks carry the tag `unseen_instances` (each request combines a word and a file, or two files, that no
    other stratum combines) or `unseen_horizons` (numbers of requests that no training task has). Difficulty is the
    horizon.
    """
    return horizon_task_set(NAME, _task, seed, oracle=REQUESTS.oracle, imperfect_oracle=REQUESTS.imperfect_oracle)


def is_reserved(first: str, name: str) -> bool:
    """Return whether a pair of word and file, or of two files, is reserved for `unseen_instances`; one in four is."""
    number = WORDS.index(first) if first in WORDS else NAMES.index(first)
    return (number + NAMES.index(name)) % 4 == 0


def _task(rng: random.Random, slot: TaskSlot, horizon: int) -> Task:
    files = {name: rng.choice(WORDS) for name in sorted(rng.sample(NAMES, FILES))}
    writer = ChoresWriter(rng, files, reserved=slot.stratum == "unseen_instances")
    written = [writer.write() for _ in range(horizon)]
    return Task(
        id=slot.id,
        environment="agentgym/code-chores-v1",
        prompt=written[0][0],
        parameters={
            "horizon": horizon,
            "files": {name: f"{word}\n" for name, word in files.items()},
            "requests": [request for request, _, _ in written],
            "goals": [goal for _, goal, _ in written],
        },
        truth={"commands": [command for _, _, command in written]},
        split=slot.split,
        tags=(f"horizon_{horizon}", *slot.tags),
        difficulty=float(horizon),
    )


class ChoresWriter:
    """Writes a session's requests one after another, each for the files as the right commands have changed them so far.

    Attributes:
        dependent: number of requests so far that depend on an earlier one.
    """

    def __init__(self, rng: random.Random, files: dict[str, str], *, reserved: bool) -> None:
        self._rng, self._files, self._reserved = rng, dict(files), reserved
        self._changes: list[Goal] = []
        self.dependent = 0

    def write(self) -> tuple[str, Goal, str]:
        """Write one more request. Returns: the request, its goal, and the command that fulfils it."""
        rng = self._rng
        lately = [name for goal in self._changes[-LATELY:] for name in goal if name in self._files]
        changed = {name for goal in self._changes for name in goal}
        untouched = [name for name in self._files if name not in changed]
        written = None
        if lately and rng.random() < DEPENDENT:
            written = self._about(rng.choice(lately), rng.choice(("append", "copy", "rename", "delete")))
            self.dependent += written is not None
        elif (kind := rng.choice(KINDS)) != "put" and untouched:
            written = self._about(rng.choice(untouched), kind)
        return written or self._put()

    def _put(self) -> tuple[str, Goal, str]:
        """Return a request that does not depend on earlier ones, because it replaces the file's text."""
        name = self._rng.choice(NAMES)
        word = self._paired([word for word in WORDS if word != self._files.get(name)], name)
        assert word is not None  # every file has several reserved and several other words
        return self._written("put", {name: word}, word=word, name=name)

    def _about(self, name: str, kind: str) -> tuple[str, Goal, str] | None:
        """Return a request about a file that exists; None if no name is free for its copy."""
        text = self._files[name]
        if kind == "delete":
            return self._written(kind, {name: None}, name=name)
        if kind == "append":
            word = self._paired(WORDS, name)
            return self._written(kind, {name: f"{text}\n{word}"}, word=word, name=name)
        target = self._paired([other for other in NAMES if other not in self._files], name)
        if target is None:
            return None
        goal: Goal = {target: text} if kind == "copy" else {name: None, target: text}
        return self._written(kind, goal, name=name, target=target)

    def _paired(self, choices: Sequence[str], name: str) -> str | None:
        """Return one of the choices (words or files) that this stratum may combine with a file."""
        allowed = [choice for choice in choices if is_reserved(choice, name) is self._reserved]
        return self._rng.choice(allowed) if allowed else None

    def _written(self, kind: str, goal: Goal, **parts: str | None) -> tuple[str, Goal, str]:
        self._changes.append(goal)
        for name, text in goal.items():
            if text is None:
                self._files.pop(name, None)
            else:
                self._files[name] = text
        request, command = (form.format(**parts) for form in FORMS[kind])
        return request, goal, command
