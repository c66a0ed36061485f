"""Keeps what runs in sandboxes from a processor, as a machine with too much to do would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from processes import children_of, spawners

BUSY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print(flush=True)
while True:
    until = time.monotonic() + 0.05 * (1 - float(sys.argv[2]))
    while time.monotonic() < until:
        pass
    time.sleep(0.05 * float(sys.argv[2]))
"""


def with_descendants(pids: set[int]) -> set[int]:
    """Return processes and all below them."""
    family, newest = set(pids), set(pids)
    while newest:
        newest = {child for pid in newest for child in children_of(pid)} - family
        family |= newest
    return family


def may_starve() -> bool:
    """Return whether this process may take a processor away from others, which root may."""
    try:
        policy = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, policy, os.sched_param(0))
    except OSError:
        return False
    return True


@contextmanager
def starved_sandboxes(share: float = 0.1) -> Iterator[None]:
    """Leave to the sandboxes of this process a share of one processor; another process takes the rest of it.

    Needs a spawner that runs: make a sandbox before.
    """
    everywhere = os.sched_getaffinity(0)
    processor = max(everywhere)

    def pin(processors: set[int]) -> None:
        for pid in with_descendants(spawners()):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(pid, processors)

    words = [sys.executable, "-c", BUSY, str(processor), str(share)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as hog:
        try:
            assert hog.stdout is not None
            hog.stdout.readline()
            pin({processor})
            yield
        finally:
            hog.kill()
            pin(everywhere)
