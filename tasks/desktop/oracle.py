"""Scripted players of the desktop: one that does the job, and one that uses the tools as well, to the wrong end."""

from __future__ import annotations

from typing import Any

from agentgym.messages import Call, Message
from agentgym.task import Task


def oracle(task: Task) -> list[Message]:
    """Files are written in the editor and moved in the terminal; questions are looked up, then answered."""
    return _played(task, wrong=False)


def imperfect_oracle(task: Task) -> list[Message]:
    """The same moves with one thing off: a mark too many, another name, nothing opened, another number."""
    return _played(task, wrong=True)


def _played(task: Task, *, wrong: bool) -> list[Message]:
    truth = task.truth
    steps: list[Message] = []
    wanted = truth["files"]
    gone = [path for path, text in wanted.items() if text is None]
    if "windows" in truth:
        path = next(iter(wanted))
        steps.append(_call("launch", program="editor", file=path if not wrong else ""))
    elif "answer" in truth:
        kind = "calculator" if "calculate" in task.tags else "terminal"
        steps.append(_call("launch", program=kind))
        if kind == "terminal":
            steps.append(_call("type", text="cat */*.txt *.txt | wc -l\n"))
    elif gone:
        steps.append(_call("launch", program="terminal"))
        steps.append(_call("type", text=_moving(gone[0], [path for path in wanted if path not in gone], wrong) + "\n"))
    else:
        path, text = next(iter(wanted.items()))
        steps.append(_call("launch", program="editor", file=path))
        steps.append(_call("press", keys="ctrl+a"))
        steps.append(_call("type", text=text.rstrip("\n") + ("?" if wrong else "")))
        steps.append(_call("press", keys="ctrl+s"))
    answer = {"answer": truth["answer"] + ("1" if wrong else "")} if "answer" in truth else {}
    return [*steps, _call("done", **answer)]


def _moving(old: str, new: list[str], wrong: bool) -> str:
    if not new:
        return f"rm {old}" if not wrong else f"mv {old} {old}.bak"
    target = new[0] + (".txt" if wrong else "")
    return f"mkdir -p {target.partition('/')[0]} && mv {old} {target}"


def _call(name: str, **arguments: Any) -> Message:
    return Message("assistant", "", (Call(name, arguments),))
