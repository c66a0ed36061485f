"""Processes of this machine, as /proc tells of them (Linux only; elsewhere none)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def process_files(name: str) -> Iterator[Path]:
    """The file of a name in the folder of every process, which may end meanwhile: reading it may raise an OSError.

    `Path.glob` raises one itself if a process ends while it looks.
    """
    processes = os.listdir("/proc") if os.path.isdir("/proc") else []
    return (Path("/proc", process, name) for process in processes if process.isdigit())


def children_of(pid: int) -> set[int]:
    """The processes that one started and that have not ended."""
    children: set[int] = set()
    with suppress(OSError):  # it, or one of its threads, ended while we looked
        for thread in os.listdir(f"/proc/{pid}/task"):
            children.update(map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split()))
    return {child for child in children if not has_ended(child)}


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent to ask for its exit code."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    return True


def spawners() -> set[int]:
    """The children of this process that make sandboxes, whoever started them."""
    return {pid for pid in children_of(os.getpid()) if b"guest import spawner" in _command_line(pid)}


def waits_for_its_sandbox(pid: int) -> bool:
    """Whether a process was made ahead for the next sandbox of its spawner: its user ids are not mapped yet."""
    with suppress(OSError):
        return not Path(f"/proc/{pid}/uid_map").read_text()
    return False


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
