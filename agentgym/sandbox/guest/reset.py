"""Can a sandbox be used again after a reset in place? What agent code may have left that no fresh files take away.

The agent's processes have the guest's user id, so they may lower its limits and priorities, and nobody could raise
them again. Connections linger on the loopback interface after their processes are gone, and keep ports busy.
"""

from __future__ import annotations

import os
import resource
from typing import Any

from . import kernel

_KINDS_OF_LIMITS = 16


def read_state() -> dict[str, Any]:
    """What agent code can change about this process and the sandbox beyond files and processes, as it is now."""
    return {
        "limits": [resource.getrlimit(kind) for kind in range(_KINDS_OF_LIMITS)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "processors": sorted(os.sched_getaffinity(0)),
        "input and output priority": kernel.io_priority(0),
        "connections": _connections(),
    }


def changed_since(before: dict[str, Any]) -> str:
    """What is not as it was, with all of the agent's processes gone; nothing if all is.

    Args:
        before: what `state` said before any code of the agent's ran; empty where it could not say.
    """
    if not before:
        return "this system does not tell"
    return ", ".join(name for name, value in read_state().items() if value != before[name])


def _connections() -> list[list[str]]:
    """Numbers of TCP sockets, those that linger included. By the kernel's own counters: a list of them takes 5 ms."""
    found = []
    for name in ("sockstat", "sockstat6"):
        for line in kernel.read_from(f"/proc/self/net/{name}").decode().splitlines():
            kind, *fields = line.split()
            if kind in ("TCP:", "TCP6:"):
                values = dict(zip(fields[::2], fields[1::2]))  # noqa: B905 - Python 3.9 knows no strict
                found.append([values["inuse"], values.get("tw", "0")])
    return found
