"""The clock of an episode, which is paused while the policy samples."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class EpisodeClock:
    """Limits the time of an episode. Sampling time does not count, because it says nothing about the agent.

    Use once, with `async with`. TimeoutError is raised inside when the time is used up.

    Args:
        time_s: the time limit in seconds, while the clock runs.
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
        """Pause the clock inside this context. Does nothing if the clock is not running."""
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
