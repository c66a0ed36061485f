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
    children = set()
    for status in process_files("stat"):
        with suppress(OSError):  # it ended while we looked
            state, parent = status.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                children.add(int(status.parent.name))
    return children


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
