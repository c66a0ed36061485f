"""What differs for a guest that is not process 1 of its own pid namespace, in a file tree of its own.

`process_main` sets these before any agent code runs; everywhere else the guest's own folders are /work and /tmp, and
every process that it sees is of its sandbox.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import NamedTuple

AREAS = ("/work", "/tmp", "/dev/shm")  # what a sandbox may write to, as agent code names it
folder = ""  # what these paths begin with on the machine; "" if they are what they seem
moved: tuple[str, ...] = ()  # all paths that begin with `folder` on the machine: AREAS, and those that are hidden so
shares_pids = False  # whether /proc also shows processes that are not of this sandbox
# the socket of the process that translates the paths of agent code, and the rules for agent code; empty without them
joining: tuple[int, ...] = ()


def real(path: str) -> str:
    """Return where a path of the sandbox is on the machine. A relative path is returned as it is."""
    return folder + path if is_moved(path) else path


def seen(path: str) -> str:
    """Return the path under which agent code knows a path of the machine: the opposite of `real`."""
    inside = path[len(folder) :]
    return inside if folder and path.startswith(folder) and is_moved(inside) else path


def is_moved(path: str) -> bool:
    """Return whether a path of the sandbox is elsewhere on the machine."""
    if not folder or path.startswith(f"{folder}/"):
        return False
    return any(path == each or path.startswith(f"{each}/") for each in moved)


def is_writable(path: str) -> bool:
    """Return whether a path of the machine is in the folders that the sandbox may write to."""
    return any(path == folder + area or path.startswith(f"{folder}{area}/") for area in AREAS)


def top() -> str:
    """Return the folder that holds /work and /tmp."""
    return folder or "/"


def parents() -> dict[int, int]:
    """Return every process below the guest, and in a pid namespace the guest too, with its parent."""
    parent_of: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent_of[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
    if not shares_pids:
        return parent_of
    below: dict[int, int] = {}
    front = {os.getpid()}
    while front:
        front = {pid for pid, parent in parent_of.items() if parent in front}
        below.update((pid, parent_of[pid]) for pid in front)
    return below


def agent_pids() -> list[int]:
    """Return the processes of the sandbox except the guest and its helpers."""
    own = os.getpid()
    return [pid for pid in parents() if pid != own]


class Held(NamedTuple):
    """What the files of a sandbox take: `bytes` of disk, and the number of files and directories."""

    bytes: int
    files: int


_held, _held_until = Held(0, 0), 0.0
_EFFORT = 10  # looking at all files may take a tenth of a processor


def files_held() -> Held:
    """Return what the files take, by looking at all of them, unless that was done a moment before."""
    global _held, _held_until
    started = time.monotonic()
    if started < _held_until:
        return _held
    sizes: dict[int, int] = {}
    pending = [real(area) for area in AREAS]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        sizes[status.st_ino] = status.st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
        except OSError:
            continue  # removed, or closed to its owner
    _held = Held(sum(sizes.values()), len(sizes))
    ended = time.monotonic()
    _held_until = ended + _EFFORT * (ended - started)
    return _held
