"""Identifies the process that made a container or folder; a later process with the same pid is not mistaken for it."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentgym.sandbox.guest.group_owners import is_alive

LABEL = "agentgym.owner"
PLACE_LABEL = "agentgym.place"
_FOLDER = re.compile(r"agentgym-[a-z]+-(\d+)-(\d+)-([0-9a-f]{8})-")


@dataclass(frozen=True)
class Owner:
    """A process, identified by its pid and its start time in clock ticks since boot.

    `namespace`: the host and pid namespace that the pid belongs to.
    """

    pid: int
    started: int
    namespace: str

    @classmethod
    def this_process(cls) -> Owner:
        return cls(os.getpid(), _start_of(os.getpid()) or 0, _here())

    @classmethod
    def from_labels(cls, labels: dict[str, str]) -> Owner | None:
        """Return the owner that labels name; None without such labels, or from another machine or pid namespace."""
        pid, _, started = labels.get(LABEL, "").partition(":")
        if not (pid.isdecimal() and started.isdecimal()) or labels.get(PLACE_LABEL) != _here():
            return None
        return cls(int(pid), int(started), _here())

    @classmethod
    def from_folder(cls, name: str) -> Owner | None:
        """Return the owner of a folder whose name starts with its `folder_prefix`; None if it is unknown."""
        match = _FOLDER.match(name)
        if match is None or match[3] != _digest(_here()):
            return None
        return cls(int(match[1]), int(match[2]), _here())

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: f"{self.pid}:{self.started}", PLACE_LABEL: self.namespace}

    def folder_prefix(self, backend: str) -> str:
        """Return what the names of this process's folders begin with. `backend`: letters alone."""
        return f"agentgym-{backend}-{self.pid}-{self.started}-{_digest(self.namespace)}-"

    @property
    def alive(self) -> bool:
        started = _start_of(self.pid)
        return is_alive(self.pid) if started is None else started == self.started


def _start_of(pid: int) -> int | None:
    """Return when a process started; None if it has ended, or /proc cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@cache
def _here() -> str:
    """Identify this machine's boot and pid namespace, the scope in which a pid identifies a process."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"


def _digest(namespace: str) -> str:
    return hashlib.sha256(namespace.encode()).hexdigest()[:8]
