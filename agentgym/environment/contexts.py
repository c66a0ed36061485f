"""Contexts: an agent may continue with another prompt, as a sub-agent, in another role, or with a shorter history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.messages import Message


@dataclass(frozen=True, slots=True)
class ContextChange:
    """The context in which the agent continues: a new one that begins with `opening`; without it, the one that waits.

    Attributes:
        nested: as in `begin_context`.
        results: as in `end_context`.
    """

    opening: Sequence[Message] = ()
    nested: bool = False
    results: Mapping[str, str] = field(default_factory=dict)


class HasContexts:
    """Mixin for an environment with several contexts: `class Desk(HasContexts, Environment)`.

    A tool or `respond` calls `begin_context` or `end_context`; the agent changes context once all calls of its message
    are answered (docs/actors.md).
    """

    _context_change: ContextChange | None = None

    def begin_context(self, opening: Sequence[Message], *, nested: bool = False) -> None:
        """Let the agent continue from only these messages, and forget all others.

        The next turn then begins a new row of the trajectory, with the environment's tools at that time. An external
        program that plays the agent keeps its own history, so it reads the call's result instead of the opening: repeat
        the opening's content in that result.

        Args:
            nested: whether the current context waits until `end_context` returns to it.
        """
        self._context_change = ContextChange(tuple(opening), nested)

    def end_context(self, results: Mapping[str, str]) -> None:
        """Let the agent return to the context that waits for this one.

        Args:
            results: results for the calls of the waiting context's last message, by call id. Failed calls stay failed.
        """
        self._context_change = ContextChange(results=dict(results))

    @property
    def changes_context(self) -> bool:
        """Whether the agent leaves the context of this turn."""
        return self._context_change is not None

    def take_context_change(self) -> ContextChange | None:
        """Return the context change since the last call, None if there was none. Called by the framework.

        Override this method if role or tools change with the context.
        """
        change, self._context_change = self._context_change, None
        return change


def changes_context(environment: object) -> bool:
    """Return whether the agent leaves its context; always False for an environment without contexts."""
    return bool(getattr(environment, "changes_context", False))


def take_context_change(environment: object) -> ContextChange | None:
    """Return the environment's context change since the last call; None if there was none."""
    take = getattr(environment, "take_context_change", None)
    change: ContextChange | None = None if take is None else take()
    return change
