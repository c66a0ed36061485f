"""The clock of an episode, which is paused while the policy samples, and the time limit of one reply."""

from __future__ import annotations

import asyncio
import math
from contextvars import Context
from types import TracebackType
from typing import Self

from typing_extensions import override

from agentgym.sandbox.time_limit import OuterLimit, TaskTimer

_LOOKS = 64
"""How many times per limit the clock checks whether it was held up."""


class EpisodeClock(OuterLimit):
    """Limits the time of an episode. Sampling time does not count, because it says nothing about the agent.

    Neither does time during which the event loop was held up, or a sandbox waited for a processor
    (`sandbox/time_limit.py`). Use once, in a `with` block. TimeoutError is raised inside when the time is used up.

    The active limit changes twice a turn, and hardly ever ends an episode. So the event loop's timer is not replaced at
    each change, as `asyncio.Timeout.reschedule` does; a timer that fires too early is set again.

    Args:
        time_s: the time limit in seconds, while the clock runs.
        reply_s: the time limit of one reply.
    Attributes:
        loop: the event loop, once the clock runs.
        ends: when the time is up, by the event loop's clock; infinite while the limit is not in use.
        sampling: a context manager that pauses the clock, and limits its block to the time of a reply.
    """

    loop: asyncio.AbstractEventLoop
    ends = math.inf

    def __init__(self, time_s: float, reply_s: float) -> None:
        self._time_s = time_s
        self.sampling = PausedClock(self, reply_s)
        self._timer: asyncio.TimerHandle | None = None
        self.goes_off = math.inf

    def __enter__(self) -> Self:
        self.loop = loop = asyncio.get_running_loop()
        self.begin(loop)
        now = loop.time()
        self.ends = now + self._time_s
        self.set_timer(self.ends, now)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.ends = self.sampling.ends = math.inf
        self._stop_timer()
        self.end(error)

    @override
    def left_s(self) -> float:
        return self.ends - self.loop.time()

    @override
    def call_ended(self, waited_s: float) -> None:
        self.ends += waited_s
        if self._timer is None and not self.calls and self.ends < math.inf:  # time ran out during the call
            self.set_timer(self.ends, self.loop.time())

    def set_timer(self, when: float, now: float) -> None:
        """Let the timer fire at `when`, by the event loop's clock, or earlier, to check whether the loop is held up."""
        self._stop_timer()
        self.goes_off = min(when, now + self._time_s / _LOOKS)
        self._timer = self.loop.call_at(self.goes_off, self._go_off, context=Context())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.goes_off, self._timer = math.inf, None

    def _go_off(self) -> None:
        now, due = self.loop.time(), self.goes_off
        self._stop_timer()
        limit = self if self.sampling.ends == math.inf else self.sampling
        limit.ends += max(now - due, 0.0)
        if limit.ends > now:
            self.set_timer(limit.ends, now)
        elif limit is self.sampling or not self.calls:
            limit.ends = math.inf
            limit.expire()


class PausedClock(TaskTimer):
    """Limits the time of one reply, and pauses the clock of the episode meanwhile.

    Attributes:
        ends: as EpisodeClock's.
        took_s: the seconds that replies have taken since this was last set to 0.
        ended: when the latest reply ended, by the event loop's clock.
    """

    ends = math.inf

    def __init__(self, clock: EpisodeClock, reply_s: float) -> None:
        self._clock, self._reply_s = clock, reply_s
        self.took_s = self._began = self.ended = 0.0

    def __enter__(self) -> Self:
        clock = self._clock
        self._began = clock.loop.time()
        self.begin(clock.loop)
        self.ends = self._began + self._reply_s
        if self.ends < clock.goes_off:
            clock.set_timer(self.ends, self._began)
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
            clock.set_timer(clock.ends, self.ended)
        if self.expired:
            self.end(error)
