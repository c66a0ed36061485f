"""Lets the guest answer while agent code uses all of its share of the processors."""

from __future__ import annotations

import contextlib
import os
from os import PRIO_PROCESS, getpriority, setpriority  # bound before agent code can replace them

_AGENT_NICENESS = 10
_GUEST_NICENESS = -10


def prefer(pid: int) -> None:
    """Prefer a guest to what it starts. Only root may; without that, its children give way once they have started.

    The kernel gives the children of such a process the usual niceness when they are born, so that none, and none of
    theirs, ever has the guest's.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, pid, _GUEST_NICENESS)


def give_way(pid: int) -> None:
    """Let a process of the agent, 0 for the caller, go after the guest; also where all of it was started by `nice`.

    Raises: ProcessLookupError if there is no such process.
    """
    if getpriority(PRIO_PROCESS, pid) < _AGENT_NICENESS:  # only root may lower it
        setpriority(PRIO_PROCESS, pid, _AGENT_NICENESS)
