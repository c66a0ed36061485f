"""The refused requests of an episode: when the gateway could not do what its program asked for, the episode fails."""

from __future__ import annotations

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.errors import RequestsRefused
from agentgym.messages import StopReason
from agentgym.text import counted

MAX_REFUSED = 64
"""The number of refused requests that fails an episode: its program will not correct itself."""
_NOT_LACKING = {401, 408, 410, 429}
"""Statuses of refusals that say nothing about what the gateway can do: of time, tokens and too many requests."""
_PROGRAM_STOPPED = {StopReason.ANSWERED, StopReason.ENVIRONMENT, StopReason.TIME}


class Refusals:
    """The requests of a program that were refused.

    Attributes:
        count: number of refused requests. last: the refusal of the last request; None if that was answered.
    """

    def __init__(self) -> None:
        self.count = 0
        self.last: ServerRefusal | None = None

    def note(self, refused: ServerRefusal) -> None:
        """Note a refusal, unless it says nothing about what the gateway can do."""
        if refused.status not in _NOT_LACKING:
            self.count, self.last = self.count + 1, refused

    @property
    def are_too_many(self) -> bool:
        return self.count >= MAX_REFUSED

    def ended(self, reason: StopReason) -> bool:
        """Return whether a program that stopped did so after a refusal: its agent had no chance."""
        return self.last is not None and reason in _PROGRAM_STOPPED

    def failure(self) -> RequestsRefused:
        """Return the failure of the episode."""
        return RequestsRefused(
            f"The gateway refused {counted(self.count, 'request')} of the program, and then answered no other. The "
            f"last refusal: {self.last}"
        )
