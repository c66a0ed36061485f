"""Has the kernel kill agent code before the guest when memory runs out.

A process inherits this preference (oom_score_adj) when it is forked, so the guest takes it on for the moment of each
fork. Agent code cannot change it afterwards, because its /proc is read-only; the guest has a descriptor from before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

EXPENDABLE = b"1000"  # the highest: killed before any process that has not said so


class OomScore:
    """The preference of this process, and the other one of its children."""

    def __init__(self, descriptor: int = -1) -> None:
        """`descriptor`: its own oom_score_adj, opened for reading and writing; -1 where there is none."""
        self._descriptor = descriptor
        self._own = os.pread(descriptor, 16, 0).strip() if descriptor >= 0 else b""

    @contextmanager
    def of_children(self) -> Iterator[None]:
        """What is forked inside the block is killed first. Keep it short: inside, this process is too."""
        if self._descriptor < 0:
            yield
            return
        os.pwrite(self._descriptor, EXPENDABLE, 0)
        try:
            yield
        finally:
            os.pwrite(self._descriptor, self._own, 0)
