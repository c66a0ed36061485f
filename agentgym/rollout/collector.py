"""Keeps Python's garbage collector from walking over every episode in progress again and again.

The collector looks at young objects after every 700 new ones, and at all of them when those that survive are many.
With thousands of episodes in progress nothing is young: each turn would then cost three times as much as with ten.
Records and messages hold no cycles, so they are freed without the collector, and it may come less often.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_CALM = (100_000, 50, 100)
_open = 0
_before = gc.get_threshold()


@contextmanager
def calm_collector() -> Iterator[None]:
    """While open, automatic collections are rare; the old thresholds come back when the last one closes.

    A collector that is switched off, or already calmer, stays as it is.
    """
    global _open, _before
    if _open == 0:
        _before = gc.get_threshold()
        if 0 < _before[0] < _CALM[0]:
            gc.set_threshold(*_CALM)
    _open += 1
    try:
        yield
    finally:
        _open -= 1
        if _open == 0:
            gc.set_threshold(*_before)
