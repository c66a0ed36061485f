"""Work that a process with an event loop has done by a child, so that the loop goes on meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import kernel
from .poller import Poller


def run_in_child(poller: Poller, work: Callable[[], None]) -> None:
    """Do some work in a fork of this process. Raises: OSError if there can be no more processes."""
    pid = os.fork()
    if pid == 0:
        try:
            kernel.die_with_parent()
            work()
        finally:
            os._exit(0)
    reap_later(poller, pid)


def reap_later(poller: Poller, pid: int) -> None:
    """Wait for a child when it has ended."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # no more descriptors: the loop has to wait
        os.waitpid(pid, 0)
        return

    def bury() -> None:
        poller.remove(handle)
        os.close(handle)
        os.waitpid(pid, 0)

    poller.add(handle, bury)
