"""Keeps the guest responsive while agent code uses its whole share of the processors."""

from __future__ import annotations

import contextlib
import os
from os import PRIO_PROCESS, getpriority, setpriority  # bound before agent code can replace them

_AGENT_NICENESS = 10
_GUEST_NICENESS = -10


def prefer(pid: int) -> None:
    """Give a guest priority over its children. This needs root; without root, children lower their own priority.

    The kernel creates the children of such a process with the usual niceness, so no descendant ever has the guest's.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, pid, _GUEST_NICENESS)


def give_way(pid: int) -> None:
    """Lower the priority of an agent's process (0: the caller) below the guest's, even if both were started by `nice`.

    Raises: ProcessLookupError if there is no such process.
    """
    if getpriority(PRIO_PROCESS, pid) < _AGENT_NICENESS:  # only root may lower it
        setpriority(PRIO_PROCESS, pid, _AGENT_NICENESS)
