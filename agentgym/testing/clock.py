"""A clock that jumps: code that waits runs at once, and how long it would have waited can be checked exactly."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class FakeClock:
    """Runs coroutines on an event loop whose time is made up.

    Whenever nothing is left to do but wait, time jumps to the next timer: `asyncio.sleep(3600)`, timeouts and
    budgets take no real time, and `now` says how much would have passed. Work in threads, subprocesses and
    sockets takes no made-up time at all: while it runs, timers may fire early.

    Attributes:
        now: seconds since the clock was made.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to the end, like `asyncio.run`; the time goes on where the last run left it."""
        with asyncio.Runner(loop_factory=lambda: _JumpingLoop(self)) as runner:
            return runner.run(coroutine)


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self._clock = clock

    def time(self) -> float:
        return self._clock.now


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits for a timer: adds the time it should have waited to the clock instead."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)  # no timer is set: only the world outside can go on
        ready = super().select(0)
        if not ready and timeout > 0:
            self._clock.now += timeout
        return ready
