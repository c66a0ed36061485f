"""What is on the host at a moment: processes, control groups, mounts, descriptors."""

from __future__ import annotations

import os
from pathlib import Path

from processes import process_files, waits_for_its_sandbox


def processes_below(pid: int) -> set[int]:
    """Every living process that descends from one, itself left out."""
    parents: dict[int, int] = {}
    for status in process_files("stat"):
        try:
            fields = status.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(status.parent.name)] = int(fields[1])
    below, front = set(), {pid}
    while front:
        front = {child for child, parent in parents.items() if parent in front} - below
        below |= front
    return below


def working_below(pid: int) -> set[int]:
    """As `processes_below`, without what was made ahead for the next sandbox, which comes and goes by itself."""
    return {below for below in processes_below(pid) if not waits_for_its_sandbox(below)}


def guests_below(pid: int) -> set[int]:
    """Process 1 of each sandbox below a process, whatever runs in it left out."""
    guests = set()
    for pid_below in processes_below(pid):
        try:
            inside = Path(f"/proc/{pid_below}/status").read_text().partition("NSpid:")[2].splitlines()[0].split()
        except (OSError, IndexError):
            continue
        if inside[1:] == ["1"] and not waits_for_its_sandbox(pid_below):
            guests.add(pid_below)
    return guests


def groups(spawner: int) -> set[str]:
    """Every control group that a spawner has made."""
    walk = os.walk("/sys/fs/cgroup")  # which passes over what goes meanwhile
    return {f"{folder}/{name}" for folder, names, _ in walk for name in names if name == f"agentgym-{spawner}"}


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
