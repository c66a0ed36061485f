"""Kills what calls, sessions and channels leave behind."""

from __future__ import annotations

import contextlib
import os
import signal

from . import jobs, teardown


def kill_tree(pid: int, *, alone: bool) -> None:
    """Kill a process and its descendants; if it runs `alone`, kill everything in the sandbox."""
    if alone:
        jobs.signal_all(signal.SIGKILL)
        return
    for _ in range(3):  # some processes may fork meanwhile
        jobs.kill_all(jobs.descendants(pid))


def kill_orphans(children: int | None, owners: set[int] | None) -> None:
    """Kill the children of process 1 that are not in `owners`.

    Args:
        children: a descriptor of the list of children of process 1, where the kernel has one.
        owners: the processes that should be alive; None if there are none.
    """
    if owners is None:
        if children is not None and not os.pread(children, 1, 0):
            return  # no child of process 1 is left
        if jobs.signal_all(signal.SIGKILL):
            teardown.wait_for_all()
        return
    for _ in range(50):
        orphans = [pid for pid in jobs.children_of_init(children) if pid not in owners]
        if not orphans:
            return
        jobs.kill_all(orphans)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                teardown.wait_for(pid)
    jobs.signal_all(signal.SIGKILL)  # they fork faster than they are found: kill all, sessions included
