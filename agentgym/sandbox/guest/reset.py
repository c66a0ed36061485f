"""Decides whether a sandbox can be used again after a reset in place: has agent code left traces besides files?

The agent's processes have the guest's user id, so they can lower its limits and priorities, and nobody could raise
them again. Connections linger on the loopback interface after their processes have ended, and keep ports busy.
"""

from __future__ import annotations

import os
import resource
from typing import Any

from . import kernel

_KINDS_OF_LIMITS = 16


def read_state() -> dict[str, Any]:
    """What agent code can change about this process and this sandbox, besides files and processes."""
    return {
        "limits": [resource.getrlimit(kind) for kind in range(_KINDS_OF_LIMITS)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "processors": sorted(os.sched_getaffinity(0)),
        "input and output priority": kernel.io_priority(0),
        "connections": _connections(),
    }


def changed_since(before: dict[str, Any]) -> str:
    """The names of what has changed, once all of the agent's processes have ended; empty if nothing has.

    Args:
        before: what `read_state` returned before any agent code ran; empty if it failed.
    """
    if not before:
        return "the state at the start is not known"
    return ", ".join(name for name, value in read_state().items() if value != before[name])


def _connections() -> list[list[str]]:
    """Numbers of TCP sockets, lingering ones included, from the kernel's counters: listing them takes 5 ms."""
    counts = []
    for name in ("sockstat", "sockstat6"):
        for line in kernel.read_from(f"/proc/self/net/{name}").decode().splitlines():
            kind, *fields = line.split()
            if kind in ("TCP:", "TCP6:"):
                values = dict(zip(fields[::2], fields[1::2]))  # noqa: B905 - Python 3.9 knows no strict
                counts.append([values["inuse"], values.get("tw", "0")])
    return counts
