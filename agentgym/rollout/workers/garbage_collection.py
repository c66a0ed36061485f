"""Keep Python's garbage collector from scanning every running episode again and again.

The collector scans young objects after every 700 new ones, and all objects when many survive. With thousands of running
episodes most objects survive: each turn would cost three times as much as with ten episodes. Records and messages have
no reference cycles, so they are freed without the collector, which may therefore run less often.
"""

from __future__ import annotations

import gc

_RELAXED = (100_000, 50, 100)


class RelaxedGC:
    """Context manager that makes automatic collections rare; the last user to leave restores the old thresholds.

    A collector that is disabled, or already more relaxed, is left unchanged.
    """

    def __init__(self) -> None:
        self._users = 0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        if self._users == 0:
            self._thresholds = gc.get_threshold()
            if 0 < self._thresholds[0] < _RELAXED[0]:
                gc.set_threshold(*_RELAXED)
        self._users += 1

    def __exit__(self, *exception: object) -> None:
        self._users -= 1
        if self._users == 0:
            gc.set_threshold(*self._thresholds)


relaxed_gc = RelaxedGC()
"""The only instance: the thresholds are process-wide, so users are counted per process too."""
