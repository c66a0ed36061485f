"""What runs inside a sandbox on request: one-off commands, session processes, channel processes."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass, field

_PIPE_READ = 65_536


class Capture:
    """One output stream of a job: the first `limit` bytes are kept, the rest is read and dropped here."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)
        self.data, self.limit, self.truncated, self.open = bytearray(), 0, False, True

    def start(self, limit: int) -> None:
        self.data, self.limit, self.truncated = bytearray(), limit, False

    def close_write(self) -> None:
        if self.write >= 0:
            os.close(self.write)
            self.write = -1

    def pump(self, null: int) -> int:
        """Take what is there, at most one read. Returns: bytes taken; 0 if there is nothing now, or never again."""
        if not self.open:
            return 0
        try:
            if len(self.data) >= self.limit:
                taken = os.splice(self.read, null, 1 << 20)
                self.truncated |= taken > 0
            else:
                piece = os.read(self.read, _PIPE_READ)
                taken = len(piece)
                room = self.limit - len(self.data)
                self.data += piece[:room]
                self.truncated |= taken > room
        except BlockingIOError:
            return 0
        if not taken:
            self.open = False
        return taken

    def drain(self, null: int) -> None:
        """Take what the pipe holds now, but no more than a pipe can hold: somebody may still be writing."""
        taken = 0
        while taken < 1 << 20:
            piece = self.pump(null)
            if not piece:
                return
            taken += piece

    def close(self) -> None:
        self.close_write()
        os.close(self.read)


@dataclass
class Process:
    """A child of the guest that owns everything below it."""

    pid: int
    handle: int = field(init=False)

    def __post_init__(self) -> None:
        self.handle = os.pidfd_open(self.pid)

    def kill(self) -> None:
        try:
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def cpu_s(self) -> float:
        """Processor time of this process so far: the clock every process id has."""
        try:
            return time.clock_gettime((~self.pid << 3) | 2)
        except OSError:
            return 0.0


@dataclass
class Call:
    """One request that is being served."""

    id: int
    started: float
    deadline: float
    stdout: Capture | None
    stderr: Capture | None
    memory_kills: int
    process: Process
    session: Session | None = None
    kind: str = "exec"
    cpu_before: float = 0.0


@dataclass
class Session:
    """A Python process that keeps its variables between calls."""

    name: str
    process: Process
    calls: socket.socket
    stdout: Capture
    stderr: Capture
    number: int = 0
    call: Call | None = None


def children_of_init(handle: int | None) -> list[int]:
    """Pids of this process's children: those it started, and orphans it was given."""
    if handle is not None:
        pieces, offset = [], 0
        while piece := os.pread(handle, 65_536, offset):
            pieces.append(piece)
            offset += len(piece)
        return [int(pid) for pid in b"".join(pieces).split()]
    return [pid for pid, parent in parents().items() if parent == 1]


def parents() -> dict[int, int]:
    """Every process in the sandbox and its parent."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
    return found


def descendants(pid: int) -> list[int]:
    tree = parents()
    found, front = [pid], {pid}
    while front:
        front = {child for child, parent in tree.items() if parent in front and child not in found}
        found += front
    return found
