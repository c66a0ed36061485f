"""What a time limit counts, and whether the code or the machine failed when time is up. One rule for all limits.

- Code that is ready to run uses its limit up by processor seconds: waiting for a processor does not count.
- Code that sleeps, or waits for anything else, uses its limit up by wall time.
- Time in which the code was not watched does not count: a stopped process, a paused machine, a blocked event loop.

If the limit is used up by this count, the code has failed. If it is not used up after many times its length in wall
time, the machine has failed. But if processors were idle, the code has failed: nothing kept it from running.

Some twenty times per limit, at random moments that the code cannot foresee, the process's state is read, and taken for
the state since the last reading. So code that both runs and sleeps gets more wall time than its limit: on a machine
that is not busy, about a third more at most, when it is ready half of the time.
"""

from __future__ import annotations

import os

LOOKS = 20  # per limit
SHORTEST_S = 0.005
_ROUNDING_S = 0.001
_TICK_S = 0.01  # the unit in which the kernel reports processor time
_IDLE = 0.05  # if a larger share of the processors is idle, code could have run


def longest_s(limit_s: float) -> float:
    """Return the wall seconds after which a limit that is not used up is the machine's failure."""
    return 6 * limit_s + 60.0


class CountedTime:
    """Counts the seconds of one limit.

    Attributes:
        limit_s: the limit. counted_s: how much of it is used up.
        due: when to call `look` next, by the caller's clock.
        is_late: more wall time than the limit has passed, but the limit is not used up.
        is_over: the limit is used up, or the code was kept from running for too long.
    """

    due: float
    counted_s = 0.0
    is_late = is_over = False
    _idle: tuple[float, float] | None = None  # when the limit's wall time was over, and the idle seconds until then

    def __init__(self, limit_s: float, now: float | None, *, share: float = 1.0, cpu_s: float = 0.0) -> None:
        """Begin to count at `now`, or if that is None at the first `resume`.

        Args:
            share: how much of a processor the code may use, if less than one.
            cpu_s: processor seconds that the code had used before.
        """
        self.limit_s, self._share, self._cpu_s = limit_s, min(share, 1.0), cpu_s
        self._began = self._last = 0.0
        if now is not None:
            self.resume(now)

    def look(self, now: float, *, is_ready: bool, cpu_s: float = 0.0) -> None:
        """Count the time since the last call.

        Args:
            is_ready: whether the code runs, or waits only for a processor. cpu_s: all processor seconds used so
                far.
        """
        seconds = max(min(now, self.due) - self._last, 0.0)
        if is_ready:
            seconds = min(seconds, max(cpu_s - self._cpu_s, 0.0) / self._share)
            cpu_s = max(self._cpu_s + seconds * self._share, cpu_s - _TICK_S)
        self.counted_s += seconds
        self._last, self._cpu_s = now, cpu_s
        age_s = now - self._began
        if age_s > self.limit_s and self._idle is None:
            self._idle = now, _idle_s()
        if age_s > longest_s(self.limit_s) and self._had_idle_processors(now):
            self.counted_s = self.limit_s
        self.is_over = self.is_used_up or age_s > longest_s(self.limit_s)
        self.is_late = age_s > self.limit_s and not self.is_over
        self.due = self._next(now)

    def resume(self, now: float) -> None:
        """Start counting, or continue after `pause`."""
        self._began, self._last = now - self.age_s, now
        self.due = self._next(now)

    def pause(self, now: float) -> None:
        """Stop counting: the limited code does not run now."""
        self.counted_s, self._last = self.counted_by(now), now

    @property
    def age_s(self) -> float:
        """Wall seconds up to the last `look` or `pause`."""
        return self._last - self._began

    @property
    def is_used_up(self) -> bool:
        """Whether the code has used the limit up."""
        return self.counted_s >= self.limit_s - _ROUNDING_S

    def counted_by(self, now: float) -> float:
        """Return the seconds counted up to the code's end at `now`. A `look` that is overdue was held up."""
        return self.counted_s + (0.0 if self.is_over else max(min(now, self.due) - self._last, 0.0))

    def _next(self, now: float) -> float:
        period_s = self.limit_s / LOOKS * (0.5 + os.urandom(1)[0] / 255)
        left_s = self.limit_s - self.counted_s
        return now + max(period_s if left_s - period_s > SHORTEST_S else left_s, SHORTEST_S)

    def _had_idle_processors(self, now: float) -> bool:
        if self._idle is None:
            return False
        since, idle_s = self._idle
        return _idle_s() - idle_s > _IDLE * (now - since) * (os.cpu_count() or 1)


def _idle_s() -> float:
    """Return the idle seconds of all processors since the machine started; 0 if the kernel does not report them."""
    try:
        with open("/proc/stat", "rb") as file:
            return int(file.readline().split()[4]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


NOT_BEGUN = CountedTime(0.0, 0.0)
"""The limit of a call whose code has not begun."""
