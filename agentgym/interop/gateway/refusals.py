"""The refused requests of an episode: when the gateway could not do what its program asked for, the episode fails.

In a sandbox, the program's key is also the agent's: a command of the agent could send a request that is refused, to
rid itself of a bad episode. There a refusal fails the episode only before the policy's first answer, when nothing of
the agent has run yet. A later one is recorded, and the episode is judged by what it left.
"""

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

    Args:
        agent_has_key: whether the agent's own commands can send requests too.
    Attributes:
        count: number of refused requests.
        last: the refusal that would fail the episode: of the last request, unless it may be the agent's; else None.
    """

    def __init__(self, agent_has_key: bool = False) -> None:
        self._agent_has_key = agent_has_key
        self.count, self._text = 0, ""
        self.last: ServerRefusal | None = None

    def note(self, refused: ServerRefusal, *, has_acted: bool) -> None:
        """Note a refusal, unless it says nothing about what the gateway can do.

        Args:
            has_acted: whether the policy has answered a request of the episode.
        """
        if refused.status not in _NOT_LACKING:
            self.count, self._text = self.count + 1, str(refused)
            self.last = None if self._agent_has_key and has_acted else refused

    @property
    def are_too_many(self) -> bool:
        return self.count >= MAX_REFUSED

    def ended(self, reason: StopReason) -> bool:
        """Return whether a program that stopped did so after a refusal: its agent had no chance."""
        return self.last is not None and reason in _PROGRAM_STOPPED

    def described(self) -> dict[str, object]:
        """Return the number of refusals and the last one, for the record."""
        return {"count": self.count, "last": self._text[:500]}

    def failure(self) -> RequestsRefused:
        """Return the failure of the episode."""
        return RequestsRefused(
            f"The gateway refused {counted(self.count, 'request')} of the program, and then answered no other. The "
            f"last refusal: {self.last}"
        )
