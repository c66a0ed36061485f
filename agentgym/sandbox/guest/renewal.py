"""Can a sandbox be used again after a reset in place? What agent code may have left that no fresh files take away.

The agent's processes have the guest's user id, so they may lower its limits and priorities, and nobody could raise
them again. Connections linger on the loopback interface after their processes are gone, and keep ports busy.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import Any

from . import kernel

_KINDS_OF_LIMITS = 16
_LISTENING = "0A"  # state of a socket of the guest's own, if any; an agent's ends with its process


def own_state() -> dict[str, Any]:
    """What others may change about this process, as it is now."""
    return {
        "limits": [resource.getrlimit(kind) for kind in range(_KINDS_OF_LIMITS)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "processors": sorted(os.sched_getaffinity(0)),
        "priority of input and output": kernel.io_priority(0),
    }


def check(unspoilt: dict[str, Any]) -> None:
    """Raises: OSError if there is something left; all of the agent's processes must be gone."""
    changed = [name for name, value in own_state().items() if value != unspoilt[name]]
    if changed:
        raise OSError(errno.EPERM, f"the agent has changed the guest's {', '.join(changed)}")
    for name in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{name}", encoding="ascii") as file:
            states = [line.split()[3] for line in file.read().splitlines()[1:]]
        if any(state != _LISTENING for state in states):
            raise OSError(errno.EADDRINUSE, f"{len(states)} {name} connections linger")
