"""How busy the driver's event loop is: its one thread handles every turn of a cluster, and can handle only so many."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

SAMPLE_S = 5.0
WINDOW_S = 60.0
"""The time over which the share is measured, in seconds of play."""
FULL = 0.8
"""Above this share, turns wait for the driver."""
_LOGGER = logging.getLogger(__name__)


class DriverLoad:
    """Measures the share of time in which the thread of an event loop computes, while runs are open on it.

    Args:
        clock, processor: return the time, and the processor time of the calling thread, in seconds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, processor: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._processor = clock, processor
        self._samples: deque[tuple[float, float]] = deque()  # seconds that passed, and of them busy ones
        self._open: set[asyncio.AbstractEventLoop] = set()
        self._has_warned = False

    @property
    def busy(self) -> float:
        """The share, from 0 to 1, over the last minute of play; 0 before any."""
        samples = [*self._samples]
        return sum(busy_s for _, busy_s in samples) / max(sum(s for s, _ in samples), 1e-9)

    @asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        """Measure inside the block; blocks on the same event loop count once."""
        loop = asyncio.get_running_loop()
        if loop in self._open:
            yield
            return
        self._open.add(loop)
        sampling = asyncio.ensure_future(self._sample_often())
        try:
            yield
        finally:
            self._open.discard(loop)
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)

    async def _sample_often(self) -> None:
        last = self._clock(), self._processor()
        try:
            while True:
                await asyncio.sleep(SAMPLE_S)
                last = self._sample(*last)
        finally:
            self._sample(*last)

    def _sample(self, time_s: float, processor_s: float) -> tuple[float, float]:
        """Add what has passed since these times. Returns: the times now."""
        now_s, now_processor_s = self._clock(), self._processor()
        self._samples.append((now_s - time_s, now_processor_s - processor_s))
        measured_s = sum(seconds for seconds, _ in self._samples)
        while measured_s - self._samples[0][0] >= WINDOW_S:
            measured_s -= self._samples.popleft()[0]
        if measured_s >= WINDOW_S and self.busy > FULL and not self._has_warned:
            self._has_warned = True
            _LOGGER.warning(
                "The driver has computed for %.0f %% of the last %.0f s (driver/busy): turns wait for it, and further "
                "nodes will not help. Let the workers ask policy servers themselves, at addresses that every node "
                "reaches (vllm.url), or play longer turns.",
                *(100 * self.busy, measured_s),
            )
        return now_s, now_processor_s
