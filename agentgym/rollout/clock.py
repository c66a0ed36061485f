"""The clock of an episode, which is paused while the policy samples, and the time limit of one reply."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Self


class TimeLimit:
    """A time limit on the asyncio task that calls `begin`, similar to `asyncio.timeout`.

    Attributes:
        ends: when the time is up, by the event loop's clock; infinite while the limit is not in use, or paused.
        expired: whether the latest use ran out of time.
    """

    def __init__(self) -> None:
        self.ends = math.inf
        self.expired = False
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    def begin(self, loop: asyncio.AbstractEventLoop, ends: float) -> None:
        """Limit the time of the current task. Raises: RuntimeError if no task is running."""
        self._task = task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("A time limit cancels a task, and this code runs in none.")
        self._cancelling, self.expired, self.ends = task.cancelling(), False, ends

    def expire(self) -> None:
        """Cancel the task."""
        self.ends, self.expired = math.inf, True
        if self._task is not None:
            self._task.cancel()

    def end(self, error: BaseException | None) -> None:
        """End the limit. Raises: TimeoutError in place of the cancellation `error`, if the time was up."""
        task, self._task, self.ends = self._task, None, math.inf
        if not self.expired or task is None:
            return
        if task.uncancel() <= self._cancelling and type(error) is asyncio.CancelledError:
            raise TimeoutError from error


class EpisodeClock(TimeLimit):
    """Limits the time of an episode. Sampling time does not count, because it says nothing about the agent.

    Use once, in a `with` block. TimeoutError is raised inside when the time is used up.

    The active limit changes twice a turn, and hardly ever ends an episode. So the event loop's timer is not replaced at
    each change, as `asyncio.Timeout.reschedule` does; a timer that fires too early is set again.

    Args:
        time_s: the time limit in seconds, while the clock runs.
        reply_s: the time limit of one reply.
    Attributes:
        loop: the event loop, once the clock runs.
        sampling: a context manager that pauses the clock, and limits its block to the time of a reply.
    """

    loop: asyncio.AbstractEventLoop

    def __init__(self, time_s: float, reply_s: float) -> None:
        super().__init__()
        self._time_s = time_s
        self.sampling = PausedClock(self, reply_s)
        self._timer: asyncio.TimerHandle | None = None
        self.goes_off = math.inf

    def __enter__(self) -> Self:
        self.loop = loop = asyncio.get_running_loop()
        self.begin(loop, loop.time() + self._time_s)
        self.set_timer(self.ends)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.sampling.ends = math.inf
        self._stop_timer()
        self.end(error)

    def set_timer(self, when: float) -> None:
        """Let the timer fire at a time of the event loop's clock."""
        self._stop_timer()
        self.goes_off, self._timer = when, self.loop.call_at(when, self._go_off)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.goes_off, self._timer = math.inf, None

    def _go_off(self) -> None:
        self._stop_timer()
        now = self.loop.time()
        limit = self if self.sampling.ends == math.inf else self.sampling
        if limit.ends <= now:
            limit.expire()
        if limit.ends < math.inf:
            self.set_timer(limit.ends)


class PausedClock(TimeLimit):
    """Limits the time of one reply, and pauses the clock of the episode meanwhile.

    Attributes:
        took_s: the time of replies since it was last set to 0.
        ended: when the latest reply ended, by the event loop's clock.
    """

    def __init__(self, clock: EpisodeClock, reply_s: float) -> None:
        super().__init__()
        self._clock, self._reply_s = clock, reply_s
        self.took_s = self._began = self.ended = 0.0

    def __enter__(self) -> Self:
        clock = self._clock
        self._began = clock.loop.time()
        self.begin(clock.loop, self._began + self._reply_s)
        if self.ends < clock.goes_off:
            clock.set_timer(self.ends)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        clock = self._clock
        self.ended = clock.loop.time()
        took_s = self.ended - self._began
        self.took_s += took_s
        self.ends, clock.ends = math.inf, clock.ends + took_s
        if clock.ends < clock.goes_off:
            clock.set_timer(clock.ends)
        if self.expired:
            self.end(error)
