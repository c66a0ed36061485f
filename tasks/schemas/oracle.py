"""Scripted players: they read the prompt, never the truth, and solve every task through the public tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym.messages import Call, Message
from agentgym.task import Task

from . import alterations, questions
from .domains import domains
from .template import Template

Script = Callable[[Sequence[Message]], Message]


def oracle(task: Task) -> Script:
    """Tries the query that answers the question, then submits it."""
    (query,) = _read(task, (*questions.TRAIN, *questions.HELD_OUT))
    return _player([Call("query", {"sql": query}), Call("submit", {"sql": query})])


def changer(task: Task) -> Script:
    """Makes the change in one transaction, then finishes."""
    statements = ["BEGIN", *_read(task, (*alterations.TRAIN, *alterations.HELD_OUT)), "COMMIT"]
    return _player([*(Call("execute", {"sql": sql}) for sql in statements), Call("finish", {})])


def answer(task: Task) -> Message:
    """The message that answers a question rightly, from its truth: trainers may ask how likely it is."""
    return Message("assistant", "", (Call("submit", {"sql": task.truth["sql"]}),))


def _read(task: Task, templates: Sequence[Template]) -> list[str]:
    domain = next(domain for domain in domains() if domain.name in task.tags)
    for template in templates:
        if template.name in task.tags and (statements := template.read(domain, task.prompt)):
            return statements
    raise ValueError(f"{task.id}: no template wrote the prompt {task.prompt!r}.")


def _player(calls: Sequence[Call]) -> Script:
    """Makes one call a turn."""

    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        return Message("assistant", "", (calls[min(turn, len(calls) - 1)],))

    return script
