"""Oracles of the database tasks. They read the prompt, never the truth, and use the public tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym import Call, Message, Task

from . import alterations, questions
from .domains import domains
from .template import SchemaTemplate

Script = Callable[[Sequence[Message]], Message]


def oracle(task: Task) -> Script:
    """Run the query that answers the question, then submit it."""
    (query,) = _read(task, (*questions.TRAIN, *questions.HELD_OUT))
    return _player([Call("query", {"sql": query}), Call("submit", {"sql": query})])


def changer(task: Task) -> Script:
    """Make the change in one transaction, then finish."""
    statements = ["BEGIN", *_read(task, (*alterations.TRAIN, *alterations.HELD_OUT)), "COMMIT"]
    return _player([*(Call("execute", {"sql": sql}) for sql in statements), Call("finish", {})])


def answer(task: Task) -> Message:
    """Return the message that gives the right answer, made from the truth."""
    return Message("assistant", "", (Call("submit", {"sql": task.truth["sql"]}),))


def _read(task: Task, templates: Sequence[SchemaTemplate]) -> list[str]:
    domain = next(domain for domain in domains() if domain.name in task.tags)
    for template in templates:
        if template.name in task.tags and (statements := template.read(domain, task.prompt)):
            return statements
    raise ValueError(f"{task.id}: the prompt {task.prompt!r} does not come from any template of this set.")


def _player(calls: Sequence[Call]) -> Script:
    """Return a script that makes one call per turn."""

    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        return Message("assistant", "", (calls[min(turn, len(calls) - 1)],))

    return script
