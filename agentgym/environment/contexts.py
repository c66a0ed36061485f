"""Contexts: an agent that goes on elsewhere, as a sub-agent, in another role, or with its history put away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.messages import Message


@dataclass(frozen=True, slots=True)
class ContextChange:
    """The context in which the agent goes on: a new one with this opening, or, without one, the one that waits.

    Attributes:
        nested, results: the arguments of `begin_context` and `end_context`.
    """

    opening: Sequence[Message] = ()
    nested: bool = False
    results: Mapping[str, str] = field(default_factory=dict)


class HasContexts:
    """For an environment whose agent goes on in other contexts than its first: `class Desk(HasContexts, Environment)`.

    A tool or `respond` calls `begin_context` or `end_context`; the agent goes on there once all calls of its message
    are answered (docs/actors.md).
    """

    _context_change: ContextChange | None = None

    def begin_context(self, opening: Sequence[Message], *, nested: bool = False) -> None:
        """Let the agent go on from these messages alone, and forget the rest.

        The next turn then begins a row of the trajectory, with the tools that the environment has by then. A player
        that cannot forget, such as a program with a history of its own, reads what the call returns: say there what
        the opening says.

        Args:
            nested: the context that is left waits until `end_context` goes back to it.
        """
        self._context_change = ContextChange(tuple(opening), nested)

    def end_context(self, results: Mapping[str, str]) -> None:
        """Let the agent go on in the context that waits for this one.

        Args:
            results: what the calls of its last message have come to meanwhile, by their ids. One that failed stays so.
        """
        self._context_change = ContextChange(results=dict(results))

    @property
    def changes_context(self) -> bool:
        """Whether the agent goes on in another context than the one of this turn."""
        return self._context_change is not None

    def take_context_change(self) -> ContextChange | None:
        """Return what was begun or ended since the last call, None if nothing was. The framework calls it.

        Override it where role or tools change with the context.
        """
        change, self._context_change = self._context_change, None
        return change


def changes_context(environment: object) -> bool:
    """Return whether the agent goes on in another context of this environment; never where it has no contexts."""
    return bool(getattr(environment, "changes_context", False))


def take_context_change(environment: object) -> ContextChange | None:
    """Return the context that an environment has begun or ended since the last call; None if there is none."""
    take = getattr(environment, "take_context_change", None)
    change: ContextChange | None = None if take is None else take()
    return change
