"""Scripted players of the desktop tasks: the oracle solves a task, the imperfect oracle makes one mistake in it."""

from __future__ import annotations

from typing import Any

from agentgym import Call, Message, Task


def oracle(task: Task) -> list[Message]:
    """Write files in the editor, move them in the terminal, look up the answers to questions."""
    return _messages(task, wrong=False)


def imperfect_oracle(task: Task) -> list[Message]:
    """Make the oracle's moves with one mistake: an extra character, a wrong name, no file opened, or a wrong number."""
    return _messages(task, wrong=True)


def _messages(task: Task, *, wrong: bool) -> list[Message]:
    truth = task.truth
    steps: list[Message] = []
    files = truth["files"]
    removed = [path for path, text in files.items() if text is None]
    if "windows" in truth:
        path = next(iter(files))
        steps.append(_call("launch", program="editor", file=path if not wrong else ""))
    elif "answer" in truth:
        kind = "calculator" if "calculate" in task.tags else "terminal"
        steps.append(_call("launch", program=kind))
        if kind == "terminal":
            steps.append(_call("type", text="cat */*.txt *.txt | wc -l\n"))
    elif removed:
        steps.append(_call("launch", program="terminal"))
        steps.append(
            _call("type", text=_move_command(removed[0], [path for path in files if path not in removed], wrong) + "\n")
        )
    else:
        path, text = next(iter(files.items()))
        steps.append(_call("launch", program="editor", file=path))
        steps.append(_call("press", keys="ctrl+a"))
        steps.append(_call("type", text=text.rstrip("\n") + ("?" if wrong else "")))
        steps.append(_call("press", keys="ctrl+s"))
    answer = {"answer": truth["answer"] + ("1" if wrong else "")} if "answer" in truth else {}
    return [*steps, _call("done", **answer)]


def _move_command(old: str, new: list[str], wrong: bool) -> str:
    if not new:
        return f"rm {old}" if not wrong else f"mv {old} {old}.bak"
    target = new[0] + (".txt" if wrong else "")
    return f"mkdir -p {target.partition('/')[0]} && mv {old} {target}"


def _call(name: str, **arguments: Any) -> Message:
    return Message("assistant", "", (Call(name, arguments),))
