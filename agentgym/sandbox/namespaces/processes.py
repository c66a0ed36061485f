"""Lists all namespaces sandboxes on this machine, of every creator, and removes leftovers of dead processes.

A spawner is recognised by its command line and by running in our pid namespace: a process inside a sandbox can take any
name, but never leaves its namespace. A sandbox is a child of a spawner and process 1 of another pid namespace. Control
groups are named after their spawner, `agentgym-PID`, and locked by the spawner while it lives.
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
from agentgym.sandbox.guest.cgroup_mounts import cgroup_mounts, cgroups_of
from agentgym.sandbox.guest.group_owners import PREFIX, is_alive, is_spawners, remove_if_abandoned
from agentgym.sandbox.guest.kernel import shows_own_processes
from agentgym.sandbox.namespaces.spawner import IMAGE, OWNER

_SPAWNER = b"from guest import spawner"  # part of every spawner's command line
_END_S = 5.0
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class _Process:
    """One process, as /proc shows it.

    `started`: clock ticks since boot. `depth`: 1 in our pid namespace, 2 in a child namespace. `inner`: its pid in
    its own namespace.
    """

    pid: int
    parent: int
    started: int
    depth: int
    inner: int
    arguments: tuple[bytes, ...]


def running(backend: str) -> list[Running]:
    """Return every sandbox of every visible spawner, ordered by pid."""
    processes = {process.pid: process for process in _processes()}
    spawners = _spawners(processes)
    sandboxes = []
    for process in sorted(processes.values(), key=lambda process: process.pid):
        spawner = spawners.get(process.parent)
        if spawner is None or process.depth != spawner.depth + 1 or process.inner != 1:
            continue
        if _is_not_given_out(process.pid):
            continue
        owner, below = _living_owner(spawner, processes), _below(process.pid, processes)
        sandboxes.append(
            Running(
                id=str(process.pid),
                backend=backend,
                image=_image(spawner),
                owner=owner,
                orphaned=not owner,
                age_s=max(0.0, _uptime_s() - process.started / os.sysconf("SC_CLK_TCK")),
                memory_mib=_memory_bytes(process.pid, [process.pid, *below]) / _MIB,
                processes=len(below),
            )
        )
    return sandboxes


def clean() -> list[str]:
    """Remove the leftovers of dead owners. Returns: one line per thing removed."""
    processes = {process.pid: process for process in _processes()}
    spawners = _spawners(processes)
    done = []
    for pid, spawner in spawners.items():
        if spawner.parent in spawners or _living_owner(spawner, processes):
            continue  # a child of a spawner ends with its spawner
        if _end(pid):
            done.append(f"spawner {pid}, whose owner {_named_owner(spawner) or 'unknown'} has ended, and its sandboxes")
    for group in _groups():
        if is_spawners(group.name) and _remove_if_abandoned(group):
            done.append(f"control group {group}")
    return done


def _is_not_given_out(pid: int) -> bool:
    """Return whether a process still waits to become a sandbox. Until then it has no map of user ids."""
    with contextlib.suppress(OSError):
        return not Path(f"/proc/{pid}/uid_map").read_bytes()
    return True  # it has ended


def _spawners(processes: dict[int, _Process]) -> dict[int, _Process]:
    """Return the spawners by pid, including any that now run an image's Python."""
    if not shows_own_processes():  # /proc is of another pid namespace: pids in arguments would name other processes
        return {}
    own_depth = processes[os.getpid()].depth
    return {
        pid: process
        for pid, process in sorted(processes.items())
        if process.depth == own_depth and any(_SPAWNER in argument for argument in process.arguments)
    }


def _living_owner(spawner: _Process, processes: dict[int, _Process]) -> int:
    """Return the pid of a spawner's owner; 0 if the owner has ended, or its pid was reused."""
    above: _Process | None = spawner
    for _ in range(4):
        if above is None:
            break
        if named := _named_owner(above):
            owner = processes.get(named)
            if owner is None:  # the process has ended, or /proc did not show it
                return named if is_alive(named) else 0
            return named if owner.started <= spawner.started else 0
        above = processes.get(above.parent)
    return spawner.parent if spawner.parent != 1 else 0


def _named_owner(spawner: _Process) -> int:
    for argument in spawner.arguments:
        pid = argument.removeprefix(OWNER.encode())
        if pid != argument and pid.isdigit():
            return int(pid)
    return 0


def _image(spawner: _Process) -> str:
    """Return the start of the image's digest; "host" without an image."""
    for argument in spawner.arguments:
        digest = argument.removeprefix(IMAGE.encode())
        if digest != argument:
            return digest[:19].decode("ascii", "replace")
    return "host"


def _end(pid: int) -> bool:
    """Kill a spawner; the kernel kills its sandboxes with it. Returns: False if that is not permitted."""
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
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended
            stat = Path(f"/proc/{name}/stat").read_bytes().rpartition(b") ")[2].split()
            if stat[0] in (b"Z", b"X"):
                continue
            numbers = _inner_pids(name)
            arguments = tuple(Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"))
            yield _Process(int(name), int(stat[1]), int(stat[19]), len(numbers), numbers[-1], arguments)


def _inner_pids(name: str) -> list[int]:
    """Return a process's pids, in our pid namespace and in each nested namespace that it belongs to."""
    for line in Path(f"/proc/{name}/status").read_bytes().splitlines():
        if line.startswith(b"NSpid:"):
            return [int(number) for number in line.split()[1:]]
    return [int(name)]


def _below(pid: int, processes: dict[int, _Process]) -> list[int]:
    pids: list[int] = []
    front = {pid}
    while front:
        front = {process.pid for process in processes.values() if process.parent in front}
        pids += front
    return pids


def _memory_bytes(pid: int, pids: list[int]) -> int:
    """Return the memory of a sandbox's control group; without one, the resident pages of its processes."""
    groups = cgroups_of(pid)
    for mount in cgroup_mounts():
        group = mount.group_with("memory", groups)
        if group and PREFIX in group:
            name = "memory.usage_in_bytes" if mount.version == 1 else "memory.current"
            with contextlib.suppress(OSError, ValueError):
                return int(Path(mount.point, group, name).read_text())
    pages = 0
    for member in pids:
        with contextlib.suppress(OSError, ValueError):
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _groups() -> list[Path]:
    """Return the control groups of spawners, in all folders where a spawner of this process would create them."""
    groups: set[Path] = set()
    for mount in cgroup_mounts():
        top = Path(mount.point)
        for path in {"/", *cgroups_of().values()}:
            for folder in [top / mount.inside(path), *(top / mount.inside(path)).parents]:
                if folder == top or top in folder.parents:
                    with contextlib.suppress(OSError):
                        groups |= set(folder.glob(f"{PREFIX}*"))
    return sorted(groups)


def _remove_if_abandoned(group: Path) -> bool:
    """Remove a group and its subgroups, if no spawner owns it and it has no processes. Returns: whether it is gone."""
    try:
        home = os.open(group.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        return remove_if_abandoned(home, group.name)
    finally:
        os.close(home)


def _uptime_s() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])
