"""What a pool says about itself."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass

_KEPT = 1000


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counts of one pool, now and since it was made.

    Attributes:
        ready, leased, changing: sandboxes alive now: on the shelf, in hands, being made or ended.
        waiting: askers in the queue now.
        created: sandboxes made. `hits`, `misses`: askers who found one ready, and who did not.
        died: found dead on the shelf or in somebody's hands. `expired`: leases that ran out.
        evicted: closed unused, for somebody else's sake or for idleness.
        wait_s: median, 95th and 99th percentile of the last thousand askers' time until they had a sandbox.
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
    """The last times, and their percentiles."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    def percentiles(self) -> tuple[float, float, float]:
        """Median, 95th and 99th, in seconds; 0 before the first."""
        ordered = sorted(self._seconds)
        if not ordered:
            return 0.0, 0.0, 0.0
        p50, p95, p99 = (ordered[min(int(share * len(ordered)), len(ordered) - 1)] for share in (0.5, 0.95, 0.99))
        return p50, p95, p99
