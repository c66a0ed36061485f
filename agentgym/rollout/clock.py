"""The clock of an episode, which stands still while the policy samples."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class EpisodeClock:
    """Bounds the time of an episode without what its policy needs to sample: that says nothing of the agent.

    Used once, as `async with`. Inside, TimeoutError is raised when the time is used up.

    Args:
        time_s: how many seconds may pass while the clock runs.
    """

    def __init__(self, time_s: float) -> None:
        self._limit = asyncio.timeout(time_s)

    async def __aenter__(self) -> EpisodeClock:
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._limit.__aexit__(kind, error, traceback)

    def expired(self) -> bool:
        """Return whether the time is used up."""
        return self._limit.expired()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the clock stand still inside. It does nothing where the clock does not run."""
        if self._limit.expired() or (ends := self._limit.when()) is None:
            yield
            return
        now = asyncio.get_running_loop().time
        stopped_at = now()
        self._limit.reschedule(None)
        try:
            yield
        finally:
            self._limit.reschedule(ends + now() - stopped_at)
