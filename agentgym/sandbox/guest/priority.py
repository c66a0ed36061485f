"""Lets the guest answer while agent code uses all of its share of the processors."""

from __future__ import annotations

import contextlib
import os

AGENT_NICENESS = 10
_GUEST_NICENESS = -10


def prefer(pid: int) -> None:
    """Prefer a guest to what it starts. Only root may; without that, its children give way once they have started.

    The kernel gives the children of such a process the usual niceness when they are born, so that none, and none of
    theirs, ever has the guest's.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, pid, _GUEST_NICENESS)
