"""Scripted players of the small repositories: the oracle repairs the wrong line, the imperfect oracle edits another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentgym import Call, Message, Task

Script = Callable[[Sequence[Message]], Message]


def oracle(task: Task) -> Script:
    """View the file, replace the wrong line by the right one, submit."""
    return _player(task, wrong_line(task), task.truth["right"])


def imperfect_oracle(task: Task) -> Script:
    """Make the same calls on a correct line: add a space at its end."""
    head, *body = task.parameters["files"][module_of(task)].splitlines()
    if "shown" in task.parameters:  # a policy that imitates this must not need the function's name
        head = next(line.strip() for line in (body[-1], body[0]) if line.strip() != wrong_line(task))
    return _player(task, head, head + " ")


def wrong_line(task: Task) -> str:
    """Return the line to be replaced, from the gold patch."""
    gold: str = task.truth["gold"]
    return next(line[1:].strip() for line in gold.splitlines()[2:] if line.startswith("-"))


def module_of(task: Task) -> str:
    """Return the path of the module, the only file without tests."""
    files: Mapping[str, str] = task.parameters["files"]
    return next(path for path in files if not path.startswith("test_"))


def _player(task: Task, old: str, new: str) -> Script:
    path = module_of(task)
    calls = [
        Call("view", {"path": path}),
        Call("replace", {"path": path, "old": old, "new": new}),
        Call("submit", {}),
    ]
    if "shown" in task.parameters:
        calls[:2] = [Call("edit", {"old": old, "new": new})]

    def script(messages: Sequence[Message]) -> Message:
        finished_calls = sum(message.role == "tool" for message in messages)
        return Message("assistant", "", (calls[min(finished_calls, len(calls) - 1)],))

    return script
