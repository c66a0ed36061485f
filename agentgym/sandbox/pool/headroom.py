"""Measures how many more sandboxes fit on this machine: memory, descriptors, processes; gives freed memory back."""

from __future__ import annotations

import ctypes
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from agentgym.sandbox.guest.cgroup_mounts import cgroup_mounts, cgroups_of

_MIB = 2**20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_DESCRIPTORS_EACH = 3  # two per sandbox, and one that a call passes
_DESCRIPTORS_KEPT = 32
_PROCESSES_EACH = 2  # process 1 and one for a call
_PROCESSES_KEPT = 64
_MEMORY_KEPT_MIB, _MEMORY_KEPT_SHARE = 512.0, 0.1  # the smaller of these two amounts stays reserved


@dataclass(frozen=True, slots=True)
class Headroom:
    """The resources available at one moment; infinity if there is no limit or it cannot be read.

    Attributes:
        memory_mib: memory that this process and its sandboxes may take. memory_kept_mib: its reserved part.
        descriptors: how many this process may still open. processes: how many may still be started.
    """

    memory_mib: float = float("inf")
    memory_kept_mib: float = 0.0
    descriptors: float = float("inf")
    processes: float = float("inf")

    def shortage(self, *, cost_mib: float, taken_mib: float, taken: int) -> str:
        """Return which resource is exhausted and what to do, if one more sandbox does not fit; else "".

        Args:
            cost_mib: memory that one more sandbox is expected to take.
            taken_mib, taken: memory and number of sandboxes admitted since the measurement.
        """
        free_mib = self.memory_mib - self.memory_kept_mib - taken_mib
        if free_mib < cost_mib:
            return (
                f"memory: {max(free_mib, 0):.0f} MiB are free beyond the {self.memory_kept_mib:.0f} kept for all "
                f"else, and a sandbox of this spec takes {cost_mib:.0f}. Run fewer at once, or free memory"
            )
        if self.descriptors - _DESCRIPTORS_KEPT < _DESCRIPTORS_EACH * (taken + 1):
            return (
                f"descriptors: {self.descriptors:.0f} are left to this process and a sandbox takes "
                f"{_DESCRIPTORS_EACH}. Raise the limit (ulimit -n), or run fewer at once"
            )
        if self.processes - _PROCESSES_KEPT < _PROCESSES_EACH * (taken + 1):
            return (
                f"processes: {self.processes:.0f} more may be started on this machine or in its control group. Raise "
                "kernel.pid_max or the group's pids.max, or run fewer at once"
            )
        return ""


def reuse_freed_memory() -> None:
    """Let this process reuse the memory that it frees, instead of getting each large block anew from the kernel.

    glibc gives blocks of more than 32 MiB back at once. With tensors of that size, a fifth of a training step on a
    processor would be the kernel's, which clears each page again.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # other C libraries
        libc.mallopt(_M_MMAP_THRESHOLD, 2**30)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> None:
    """Return the memory that this process has freed, and its allocator has kept, to the system; glibc alone can."""
    if hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def measure_headroom() -> Headroom:
    """Measure the machine and the control groups around this process. Takes some tenths of a millisecond."""
    total, available = _memory_mib()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        descriptors = float("inf") if soft == resource.RLIM_INFINITY else soft - len(os.listdir("/proc/self/fd"))
    except OSError:
        descriptors = float(soft)
    return Headroom(available, min(_MEMORY_KEPT_MIB, total * _MEMORY_KEPT_SHARE), descriptors, _processes())


def _memory_mib() -> tuple[float, float]:
    """Return total and available memory in MiB, of the machine or of the tightest control group if that has less."""
    facts = dict.fromkeys(("MemTotal", "MemAvailable"), float("inf"))
    for line in _text("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name in facts:
            facts[name] = float(rest.split()[0]) / 1024
    total, available = facts["MemTotal"], facts["MemAvailable"]
    files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max", "memory.current")
    for folder, most, used in _groups("memory", *files):
        limit = _number(folder / most) / _MIB
        cache = 0.0  # the kernel frees it on demand
        for line in _text(folder / "memory.stat").splitlines():
            if line.startswith(("inactive_file ", "total_inactive_file ")):
                cache = float(line.split()[1]) / _MIB
        total = min(total, limit)
        available = min(available, limit - _number(folder / used) / _MIB + cache)
    return total, available


def _processes() -> float:
    fields = _text("/proc/loadavg").split()
    room = float("inf")
    if len(fields) > 3 and "/" in fields[3]:
        most = min(_number("/proc/sys/kernel/pid_max"), _number("/proc/sys/kernel/threads-max"))
        room = most - float(fields[3].split("/")[1])
    for folder, most_file, used in _groups("pids", "pids.max", "pids.current", "pids.max", "pids.current"):
        room = min(room, _number(folder / most_file) - _number(folder / used, 0.0))
    return room


def _groups(controller: str, max1: str, used1: str, max2: str, used2: str) -> list[tuple[Path, str, str]]:
    """Return the control groups that limit this process, with the names of their limit and usage files."""
    groups, own = [], cgroups_of()
    for mount in cgroup_mounts():
        if (inside := mount.group_with(controller, own)) is None:
            continue
        most, used = (max1, used1) if mount.version == 1 else (max2, used2)
        top = Path(mount.point)
        folder = top / inside
        for group in (folder, *folder.parents):
            if not group.is_relative_to(top):
                break
            if (group / most).is_file() and (group / used).is_file():
                groups.append((group, most, used))
    return groups


def _number(path: str | Path, absent: float = float("inf")) -> float:
    text = _text(path).strip()
    return float(text) if text.isdecimal() else absent


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
