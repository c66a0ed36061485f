"""Scripted players of the small repositories: one that mends the line, and one that edits well and mends nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentgym.messages import Call, Message
from agentgym.task import Task

Script = Callable[[Sequence[Message]], Message]


def oracle(task: Task) -> Script:
    """Look at the file, put the right line in the wrong one's place, submit."""
    return _player(task, wrong_line(task), task.truth["right"])


def imperfect_oracle(task: Task) -> Script:
    """The same moves on a line that is not the wrong one: it adds a blank at its end."""
    head, *body = task.parameters["files"][module_of(task)].splitlines()
    if "shown" in task.parameters:  # there the name is nowhere else to be written
        head = next(line.strip() for line in (body[-1], body[0]) if line.strip() != wrong_line(task))
    return _player(task, head, head + " ")


def wrong_line(task: Task) -> str:
    """What stands where the right line belongs. The gold patch has it; truth has no copy, since agents see it."""
    gold: str = task.truth["gold"]
    return next(line[1:].strip() for line in gold.splitlines()[2:] if line.startswith("-"))


def module_of(task: Task) -> str:
    """The file that is not of tests."""
    files: Mapping[str, str] = task.parameters["files"]
    return next(path for path in files if not path.startswith("test_"))


def _player(task: Task, old: str, new: str) -> Script:
    path = module_of(task)
    moves = [
        Call("view", {"path": path}),
        Call("replace", {"path": path, "old": old, "new": new}),
        Call("submit", {}),
    ]
    if "shown" in task.parameters:
        moves[:2] = [Call("edit", {"old": old, "new": new})]

    def script(messages: Sequence[Message]) -> Message:
        done = sum(message.role == "tool" for message in messages)
        return Message("assistant", "", (moves[min(done, len(moves) - 1)],))

    return script
