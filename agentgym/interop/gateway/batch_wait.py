"""Whether a policy's batches wait for the requests of a program, as they do in our own loop."""

from __future__ import annotations

import asyncio
from types import TracebackType

from agentgym.policy.contract import Policy

IDLE_S = 0.5
"""How long a policy's batches wait for a program's next request."""


class BatchWait:
    """Makes the batches wait for an episode while it has a request, and for a moment after.

    They do not wait while its program starts, thinks for long, or is dead: waiting would delay other episodes.
    """

    def __init__(self, policy: Policy, episode: str) -> None:
        self._policy, self._episode = policy, episode
        self._idle: asyncio.TimerHandle | None = None
        self._waits = False

    def __enter__(self) -> None:
        self._stop_timer()
        if not self._waits:
            self._waits = True
            self._policy.episode_started(self._episode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self.end)

    def end(self) -> None:
        """Let the batches go on without the episode."""
        self._stop_timer()
        if self._waits:
            self._waits = False
            self._policy.episode_ended(self._episode)

    def _stop_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
