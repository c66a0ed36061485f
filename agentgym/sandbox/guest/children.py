"""Runs work in a child process, so that the event loop of this process goes on meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import kernel
from .poller import Poller


def run_in_child(poller: Poller, work: Callable[[], None]) -> None:
    """Run `work` in a fork of this process. Raises: OSError if no process can be started."""
    pid = os.fork()
    if pid == 0:
        try:
            kernel.die_with_parent()
            work()
        finally:
            os._exit(0)
    reap_later(poller, pid)


def reap_later(poller: Poller, pid: int) -> None:
    """Register a child that is to be waited for once it has ended."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # there is no descriptor left, so wait here
        os.waitpid(pid, 0)
        return

    def reap() -> None:
        poller.remove(handle)
        os.close(handle)
        os.waitpid(pid, 0)

    poller.add(handle, reap)
