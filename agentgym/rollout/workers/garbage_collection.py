"""Keeps Python's garbage collector from walking over every episode in progress again and again.

The collector looks at young objects after every 700 new ones, and at all of them when many survive. With thousands of
episodes in progress nothing is young: each turn would cost three times as much as with ten. Records and messages hold
no cycles, so they are freed without the collector, and it may run less often.
"""

from __future__ import annotations

import gc

_RELAXED = (100_000, 50, 100)


class RelaxedGC:
    """While at least one user has it open, automatic collections are rare; then the old thresholds come back.

    A collector that is switched off, or already more relaxed, stays as it is.
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
"""The one instance: the thresholds belong to the process, so who uses them is counted per process too."""
