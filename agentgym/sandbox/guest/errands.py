"""Work that a process with an event loop has done by a child, so that the loop goes on meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import kernel
from .watch import Watch


def in_child(watch: Watch, work: Callable[[], None]) -> None:
    """Do some work in a fork of this process. Raises: OSError if there can be no more processes."""
    pid = os.fork()
    if pid == 0:
        try:
            kernel.die_with_parent()
            work()
        finally:
            os._exit(0)
    bury_later(watch, pid)


def bury_later(watch: Watch, pid: int) -> None:
    """Wait for a child when it has ended."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # no more descriptors: the loop has to wait
        os.waitpid(pid, 0)
        return

    def bury() -> None:
        watch.remove(handle)
        os.close(handle)
        os.waitpid(pid, 0)

    watch.add(handle, bury)
