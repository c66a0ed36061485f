"""Which namespaces sandboxes run on this machine, whoever made them, and what dead processes left behind.

A spawner is known by its command line, and by living in our own pid namespace: what runs inside a sandbox can
call itself anything, but never leaves its namespace. A sandbox is a spawner's child that is process 1 of another
pid namespace. Control groups are named after their spawner: `agentgym-PID`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentgym.sandbox.contract import Running
from agentgym.sandbox.namespaces.spawner import IMAGE, OWNER

_SPAWNER = b"from guest import spawner"  # in every spawner's command line
_GROUP = "agentgym-"
_END_S = 5.0
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Process:
    """One process as /proc shows it. `started`: clock ticks since boot. `depth`: 1 in our pid namespace, 2 below it."""

    pid: int
    parent: int
    started: int
    depth: int
    inner: int
    arguments: tuple[bytes, ...]


def running(backend: str) -> list[Running]:
    """Every sandbox of every spawner that can be seen, in the order of their pids."""
    seen = {one.pid: one for one in _processes()}
    spawners = _spawners(seen)
    found = []
    for one in sorted(seen.values(), key=lambda one: one.pid):
        spawner = spawners.get(one.parent)
        if spawner is None or one.depth != spawner.depth + 1 or one.inner != 1:
            continue
        owner, below = _living_owner(spawner, seen), _below(one.pid, seen)
        found.append(Running(
            id=str(one.pid), backend=backend, image=_image(spawner), owner=owner, orphaned=not owner,
            age_s=max(0.0, _uptime_s() - one.started / os.sysconf("SC_CLK_TCK")),
            memory_mib=_memory_bytes(one.pid, [one.pid, *below]) / _MIB, processes=len(below),
        ))  # fmt: skip
    return found


def clean() -> list[str]:
    """Remove what dead owners left behind. Returns: one line for each thing removed."""
    seen = {one.pid: one for one in _processes()}
    spawners = _spawners(seen)
    done = []
    for pid, spawner in spawners.items():
        if spawner.parent in spawners or _living_owner(spawner, seen):
            continue  # what a spawner started ends with it
        if _end(pid):
            done.append(f"spawner {pid}, whose owner {_named_owner(spawner) or 'unknown'} is dead, and its sandboxes")
    for group in _groups():
        number = group.name.removeprefix(_GROUP)
        if number.isdecimal() and not os.path.exists(f"/proc/{number}") and _remove(group):
            done.append(f"control group {group}")
    return done


def _spawners(seen: dict[int, _Process]) -> dict[int, _Process]:
    """Spawners, and what they became in an image, by pid."""
    own = seen[os.getpid()].depth
    return {
        pid: one for pid, one in sorted(seen.items())
        if one.depth == own and any(_SPAWNER in argument for argument in one.arguments)
    }  # fmt: skip


def _living_owner(spawner: _Process, seen: dict[int, _Process]) -> int:
    """Pid of the process that a spawner serves; 0 if that is dead, or a later one has its number."""
    above: _Process | None = spawner
    for _ in range(4):
        if above is None:
            break
        if named := _named_owner(above):
            owner = seen.get(named)
            return named if owner is not None and owner.started <= spawner.started else 0
        above = seen.get(above.parent)
    return spawner.parent if spawner.parent != 1 else 0


def _named_owner(spawner: _Process) -> int:
    for argument in spawner.arguments:
        pid = argument.removeprefix(OWNER.encode())
        if pid != argument and pid.isdigit():
            return int(pid)
    return 0


def _image(spawner: _Process) -> str:
    """The start of the digest of the image it is on, as much as tells it from others; "host" without one."""
    for argument in spawner.arguments:
        digest = argument.removeprefix(IMAGE.encode())
        if digest != argument:
            return digest[:19].decode("ascii", "replace")
    return "host"


def _end(pid: int) -> bool:
    """Kill a spawner; the kernel ends its sandboxes with it. Returns: False if it is not ours to kill."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except PermissionError:
        return False
    except ProcessLookupError:
        return True
    finally:
        os.close(handle)
    deadline = time.monotonic() + _END_S
    while os.path.exists(f"/proc/{pid}/ns") and time.monotonic() < deadline:
        time.sleep(0.01)
    return True


def _processes() -> Iterator[_Process]:
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it ended meanwhile
            stat = Path(f"/proc/{name}/stat").read_bytes().rpartition(b") ")[2].split()
            if stat[0] in (b"Z", b"X"):
                continue
            numbers = _inner_pids(name)
            arguments = tuple(Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"))
            yield _Process(int(name), int(stat[1]), int(stat[19]), len(numbers), numbers[-1], arguments)


def _inner_pids(name: str) -> list[int]:
    """A process's number in our pid namespace and in each below it that it lives in."""
    for line in Path(f"/proc/{name}/status").read_bytes().splitlines():
        if line.startswith(b"NSpid:"):
            return [int(number) for number in line.split()[1:]]
    return [int(name)]


def _below(pid: int, seen: dict[int, _Process]) -> list[int]:
    found: list[int] = []
    front = {pid}
    while front:
        front = {one.pid for one in seen.values() if one.parent in front}
        found += front
    return found


def _memory_bytes(pid: int, all_of_it: list[int]) -> int:
    """What its control group counts; without one, the resident pages of its processes, shared ones counted for each."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if _GROUP in path and (number == "0" or "memory" in controllers.split(",")):
                for mount, version, root in _trees():
                    inside = path.removeprefix(root.rstrip("/")).strip("/")
                    name = "memory.current" if version == 2 else "memory.usage_in_bytes"
                    with contextlib.suppress(OSError):
                        return int((mount / inside / name).read_text())
    pages = 0
    for one in all_of_it:
        with contextlib.suppress(OSError, ValueError):
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _groups() -> list[Path]:
    """Control groups of spawners, at the places where spawners of this process's own group make them."""
    own = [line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    found: set[Path] = set()
    for mount, _, root in _trees():
        for path in {"/", *own}:
            inside = path.removeprefix(root.rstrip("/")).strip("/")
            for place in [mount / inside, *(mount / inside).parents]:
                if place == mount or mount in place.parents:
                    with contextlib.suppress(OSError):
                        found |= set(place.glob(f"{_GROUP}*"))
    return sorted(found)


def _trees() -> list[tuple[Path, int, str]]:
    """Mount point, version and root of every control group tree."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, fields = right.split(" ", 1)[0], left.split(" ")
        if kind in ("cgroup", "cgroup2"):
            found.append((Path(fields[4]), 1 if kind == "cgroup" else 2, fields[3]))
    return found


def _remove(group: Path) -> bool:
    """Remove a group and those below it, if none has processes. Returns: whether it is gone."""
    try:
        for child in group.iterdir():
            if child.is_dir():
                child.rmdir()
        group.rmdir()
    except OSError:
        return False
    return True


def _uptime_s() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])
