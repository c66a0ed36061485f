"""A pool's counts and waiting times, for logs."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass

_RECENT = 1000


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counts of one pool.

    Attributes:
        ready, leased, changing: sandboxes alive now: ready; held by callers; being created or ended.
        waiting: callers who wait now.
        created: sandboxes created. hits, misses: requests that found a ready sandbox, and that found none.
        died: sandboxes found dead. expired: leases that ran out.
        evicted: sandboxes closed unused, to make room or because they were idle.
        wait_s: median, 95th and 99th percentile of the waiting time of the last thousand requests, in seconds.
    """

    ready: int
    leased: int
    changing: int
    waiting: int
    created: int
    hits: int
    misses: int
    died: int
    expired: int
    evicted: int
    wait_s: tuple[float, float, float]

    def __str__(self) -> str:
        counts = asdict(self)
        p50, p95, p99 = counts.pop("wait_s")
        words = ", ".join(f"{value} {name}" for name, value in counts.items() if value)
        return f"{words or 'nothing yet'}; wait p50 {1e3 * p50:.1f} p95 {1e3 * p95:.1f} p99 {1e3 * p99:.1f} ms"


class WaitTimes:
    """The last thousand waiting times and their percentiles."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_RECENT)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def percentiles(self) -> tuple[float, float, float]:
        """Return the median, 95th and 99th percentile, in seconds; 0 without data."""
        ordered = sorted(self._seconds)
        if not ordered:
            return 0.0, 0.0, 0.0
        p50, p95, p99 = (ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in (0.5, 0.95, 0.99))
        return p50, p95, p99
