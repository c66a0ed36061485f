"""A clock that jumps: code does not really wait, and a test can check exactly how long it would have waited."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class FakeClock:
    """Runs coroutines on an event loop with simulated time.

    When the loop can only wait, time jumps to the next timer: `asyncio.sleep(3600)`, timeouts and budgets take
    no real time, and `now` says how much time would have passed. Work in threads, subprocesses and sockets takes
    no simulated time: while such work runs, timers may fire early.

    Attributes:
        now: seconds since the clock was made.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to the end, like `asyncio.run`; time continues from the end of the previous run."""
        with asyncio.Runner(loop_factory=lambda: _JumpingLoop(self)) as runner:
            return runner.run(coroutine)


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self._clock = clock

    def time(self) -> float:
        return self._clock.now


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits for a timer: adds the waiting time to the clock instead."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)  # no timer is set: only an outside event can continue the run
        ready = super().select(0)
        if not ready and timeout > 0:
            self._clock.now += timeout
        return ready
