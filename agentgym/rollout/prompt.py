"""Texts that the agent reads besides its environment's messages: instructions, learned knowledge, and help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentgym.messages import Message
from agentgym.task.definition import Task
from agentgym.trajectory import PromptAddition


class PromptView(Protocol):
    """The additions of a PromptSource, frozen at one moment."""

    def addition_for(self, task: Task) -> PromptAddition | None:
        """Return the prompt addition for an episode of a task; None for no addition."""
        ...


@runtime_checkable
class PromptSource(Protocol):
    """Adds a text to the prompt of each task, such as knowledge from earlier episodes."""

    def view(self) -> PromptView:
        """Return a view of the source's current additions. All episodes of a batch use one view."""
        ...

    def describe(self) -> str:
        """Return a description of what the source shows to measured episodes; empty if it shows nothing."""
        ...

    def fingerprint(self) -> str:
        """Return a hash of all that the source may add."""
        ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt additions for the episodes of one batch.

    Attributes:
        fixed: the additions for all tasks.
        views: each returns an addition for a task.
    """

    fixed: tuple[PromptAddition, ...] = ()
    views: tuple[PromptView, ...] = ()

    def additions_for(self, task: Task) -> tuple[PromptAddition, ...]:
        """Return the additions to the prompt of a task."""
        by_task = (view.addition_for(task) for view in self.views)
        return (*self.fixed, *(addition for addition in by_task if addition is not None))


def with_additions(opening: Sequence[Message], additions: Sequence[PromptAddition]) -> list[Message]:
    """Return the opening messages with the additions, unless they already have them.

    A branch begins with its record's opening, which already has the additions.
    """
    if not additions:
        return list(opening)
    texts = {
        where: "\n\n".join(addition.text for addition in additions if addition.text and addition.where == where)
        for where in ("system", "user")
    }
    return _with_user_text(_with_system_text(opening, texts["system"]), texts["user"])


def _with_system_text(opening: Sequence[Message], text: str) -> list[Message]:
    """Return the messages with a text at the beginning of their system message."""
    if not text:
        return list(opening)
    if not opening or opening[0].role != "system":
        return [Message("system", text), *opening]
    if opening[0].text.startswith(text):
        return list(opening)
    return [Message("system", f"{text}\n\n{opening[0].text}"), *opening[1:]]


def _with_user_text(opening: Sequence[Message], text: str) -> list[Message]:
    """Return the messages with a text at the end of the last message, or in a new message after it."""
    if not text:
        return list(opening)
    *earlier, last = opening or [Message("user", "")]
    if last.text.endswith(text):
        return list(opening)
    if last.role != "user" or last.images:
        return [*opening, Message("user", text)]
    return [*earlier, Message("user", f"{last.text}\n\n{text}".strip())]
