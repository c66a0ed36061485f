"""How much disk a terminal task and its build get. Their files are memory, so this machine's memory is the bound."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agentgym import SandboxError, TaskError

TASK_SHARE, BUILD_SHARE = 1 / 8, 1 / 2
"""The most that the files of one sandbox of a task, and of one build, may take of this machine's memory."""
BUILD_MIB = 4096
ALLOWED = "AGENTGYM_BUILD_DISK_MIB"
"""The variable with the disk of a build in MiB, in place of what the task's folder asks for."""
CONTROL_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def disk_of_task(requested_mib: int, most_mib: int = 0) -> dict[str, int]:
    """Return a task's parameter `disk`: the MiB that its folder asks for, and those that its sandboxes get.

    Args: `most_mib`, the most that they get; 0 for TASK_SHARE of this machine's memory.
    Raises: TaskError for a number below 0.
    """
    if most_mib < 0:
        raise TaskError(f"disk_mib must be a number of MiB above 0, not {most_mib}")
    most_mib = most_mib or int(memory_mib() * TASK_SHARE)
    return {"requested_mib": requested_mib, "used_mib": min(requested_mib, most_mib)}


def disk_from(parameters: Mapping[str, object], requested_mib: int) -> int:
    """Return the MiB that the parameters of a task give its sandboxes; those of older tasks say nothing."""
    disk = parameters.get("disk")
    used = disk.get("used_mib") if isinstance(disk, Mapping) else disk_of_task(requested_mib)["used_mib"]
    if not isinstance(used, int) or used < 1:
        raise TaskError(f"the parameter 'disk' must give used_mib as a number above 0, not {used!r:.80}")
    return used


def disk_of_build(requested_mib: int) -> int:
    """Return the MiB that a build may write, and may transfer: 4 GiB, and what the folder asks for if it is more.

    Raises: SandboxError if AGENTGYM_BUILD_DISK_MIB is not a number.
    """
    chosen = os.environ.get(ALLOWED, "")
    if not chosen:
        return max(BUILD_MIB, min(requested_mib, int(memory_mib() * BUILD_SHARE)))
    if not (chosen.isascii() and chosen.isdigit() and int(chosen)):
        raise SandboxError(f"{ALLOWED} must be a number of MiB above 0, not {chosen!r:.80}.")
    return int(chosen)


def memory_mib() -> int:
    """Return this machine's memory, or that of the container in which this process runs, if it has less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in map(Path, CONTROL_GROUPS):
        if path.is_file() and (text := path.read_text().strip()).isdecimal():
            limits.append(int(text))
    return int(min(limits)) // 2**20
