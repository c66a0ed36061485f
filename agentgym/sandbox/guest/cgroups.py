"""Limits the processes of a sandbox together by control groups.

Each controller (memory, pids, cpu) is used from the version of control groups, 1 or 2, that offers it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from . import syscalls
from .cgroup_mounts import cgroup_mounts, cgroups_of
from .group_owners import PREFIX, claim, is_named, is_spawners, remove_if_abandoned
from .metering import number_after
from .root import HOST
from .syscalls import Syscall

CONTROLLERS = ("memory", "pids", "cpu")
_SPAWNERS_OWN = "spawner"  # the spawner's own group, if the spawner runs as its own user
_HOSTS_OWN = "agentgym-host"  # the group to which the processes of a delegated group are moved
_PERIOD_US = 100_000
_SOCKET_BUFFERS = "memory.kmem.tcp.limit_in_bytes"  # counts UDP too, despite its name


@dataclass(frozen=True)
class Limits:
    """The limits of one sandbox: bytes, processes and threads, cores."""

    memory: int
    processes: int
    cores: float


@dataclass
class _Hierarchy:
    """A mounted hierarchy and the controllers used from it.

    `name`: this spawner's own group in the directory `home`. `parent`: a descriptor of that group, holding its lock.
    """

    version: int
    home: int
    name: str
    parent: int
    controllers: tuple[str, ...]

    @cached_property
    def counts_peak(self) -> bool:
        """Whether memory.peak exists, which version 2 has from Linux 5.19 on."""
        return "memory.peak" in os.listdir(self.parent)


@dataclass
class Cgroups:
    """The control groups of one spawner's sandboxes."""

    hierarchies: list[_Hierarchy] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"{PREFIX}{os.getpid()}")

    @classmethod
    def open(cls) -> Cgroups:
        """Find the hierarchies that this process may write to.

        Controllers that are not available are in `missing`, with the reason.
        """
        self = cls()
        own = cgroups_of()
        controllers = list(CONTROLLERS)
        for mount in cgroup_mounts():
            version, mount_point = mount.version, mount.point
            named = [name for name in controllers if name in mount.options]
            if not controllers or (version == 1 and not named):
                continue
            inside = mount.inside(own.get(named[0] if version == 1 else "", "/"))
            usable: tuple[str, ...] = ()
            try:
                usable = self._adopt(version, mount_point, inside, named if version == 1 else controllers)
            except OSError as error:
                reason = f"{error.strerror} in {mount_point.removeprefix(HOST)}"
                self.missing.update(dict.fromkeys(named or controllers, reason))
            controllers = [name for name in controllers if name not in usable]
            for name in usable:
                self.missing.pop(name, None)
        for name in controllers:
            self.missing.setdefault(name, "no cgroup tree offers this controller")
        self.missing.pop("pids", None)  # RLIMIT_NPROC counts per user namespace, hence per sandbox, and is enough
        return self

    def _adopt(self, version: int, mount_point: str, inside: str, controllers: list[str]) -> tuple[str, ...]:
        """Create this spawner's group in a hierarchy.

        Returns: the controllers that can be used. Raises: the last OSError if there are none.
        """
        inside = inside.removesuffix(_HOSTS_OWN).rstrip("/")
        # below our own group, so that our limits apply to the sandboxes too; else below the root
        places = dict.fromkeys([f"{mount_point}/{inside}".rstrip("/"), mount_point])
        failure: OSError | None = None
        for make_room in (False, True) if version == 2 else (False,):
            for folder in places:
                names = controllers
                if version == 2:
                    names = [name for name in controllers if name in _read(f"{folder}/cgroup.controllers").split()]
                if not names:
                    continue
                try:
                    group = self._create_parent_group(folder, version, names, make_room=make_room)
                except OSError as error:
                    failure = error
                    continue
                self.hierarchies.append(_Hierarchy(version, *group, tuple(names)))
                return tuple(names)
        if failure is not None:
            raise failure
        return ()

    def _create_parent_group(
        self, folder: str, version: int, names: list[str], *, make_room: bool
    ) -> tuple[int, str, int]:
        """Create the spawner's group in a folder. Returns: the folder's descriptor; the group's name and descriptor."""
        home, group, name = os.open(folder, os.O_RDONLY | os.O_DIRECTORY), -1, ""
        switch_on = " ".join(f"+{name}" for name in names)
        try:
            if make_room:
                _move_down(home)
            if version == 2:
                _write(home, "cgroup.subtree_control", switch_on)
            _remove_dead_spawners(home)
            name, group = claim(home, self.name)
            if version == 2:
                _write(group, "cgroup.subtree_control", switch_on)
            if "cpu" in names:
                _apply_nice_value(group, version)
            if "memory" in names and version == 1:
                _keep_counting_socket_buffers(group)
        except OSError:
            if group >= 0:
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=home)
                os.close(group)
            os.close(home)
            raise
        return home, name, group

    @classmethod
    def from_handover(cls, handover: dict[str, Any]) -> Cgroups:
        """Rebuild the object from the result of `hand_over` after this process has executed another program."""
        trees = [
            _Hierarchy(version, home, name, parent, tuple(names))
            for version, home, name, parent, names in handover["trees"]
        ]
        for tree in trees:
            os.set_inheritable(tree.home, False)
            os.set_inheritable(tree.parent, False)
        return cls(trees, handover["missing"], handover["name"])

    def hand_over(self) -> dict[str, Any]:
        """Return the state for the program that this process will execute. The program inherits the descriptors."""
        for tree in self.hierarchies:
            os.set_inheritable(tree.home, True)
            os.set_inheritable(tree.parent, True)
        trees = [(tree.version, tree.home, tree.name, tree.parent, tree.controllers) for tree in self.hierarchies]
        return {"trees": trees, "missing": self.missing, "name": self.name}

    def delegate(self, user: int, pid: int) -> None:
        """Let a process of another user create and remove sandboxes' groups here, but nothing else."""
        for tree in self.hierarchies:
            os.fchown(tree.parent, user, user)
            if tree.version == 2:  # moving a process needs write access to the common ancestor
                os.chown("cgroup.procs", user, user, dir_fd=tree.parent)
                os.mkdir(_SPAWNERS_OWN, 0o755, dir_fd=tree.parent)
                _write(tree.parent, f"{_SPAWNERS_OWN}/cgroup.procs", str(pid))

    def prepare(self, name: str) -> None:
        """Create one sandbox's group, unless it exists."""
        for tree in self.hierarchies:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=tree.parent)

    def create(self, name: str, limits: Limits) -> None:
        """Create one sandbox's group, unless `prepare` has created it, and set its limits."""
        self.prepare(name)
        for tree in self.hierarchies:
            for file, value, needed in _settings(tree, limits):
                try:
                    _write(tree.parent, f"{name}/{file}", value)
                except OSError:
                    if needed:
                        raise

    def attach(self, name: str, pid: int) -> None:
        """Move a process into the group, in version 2. In version 1 the process must execute the calls of `joining`."""
        for tree in self.hierarchies:
            if tree.version == 2:
                _write(tree.parent, f"{name}/cgroup.procs", str(pid))

    def joining(self, name: str) -> Iterator[Syscall]:
        """Return the calls by which a single-threaded process moves itself into the group, in hierarchies of version 1.

        When a thread moves itself, the kernel does not lock all processes: the move takes 0.1 ms instead of 20 ms,
        unless the lock was taken just before. Version 2 can only move whole processes.
        """
        for tree in self.hierarchies:
            if tree.version == 1:
                yield from syscalls.write(f"{name}/tasks", "0", tree.parent)

    def memory_files(self, name: str) -> list[tuple[int, str]]:
        """Return folder and path of the files that count memory kills and the peak; none without the controller."""
        for tree in self.hierarchies:
            if "memory" in tree.controllers:
                first, second = "memory.oom_control", "memory.max_usage_in_bytes"
                if tree.version == 2:
                    first, second = "memory.events", "memory.peak" if tree.counts_peak else "memory.current"
                return [(tree.parent, f"{name}/{first}"), (tree.parent, f"{name}/{second}")]
        return []

    def ran_out_of_memory(self, name: str, limit: int) -> bool:
        """Return whether the kernel killed a process of a group for lack of memory, and the group had a part in it.

        It had a part if it reached its own limit, `limit` bytes, or if a group around it reached a limit and this group
        had at some time held more than a quarter of `limit`.
        """
        files = self.memory_files(name)
        if not files:
            return False
        counters, peak = (_read_in(folder, path) for folder, path in files)
        if not number_after(b"oom_kill ", counters):
            return False
        return number_after(b"oom ", counters) > 0 or int(peak) > limit // 4  # version 1 does not have this counter

    def descriptors(self) -> list[int]:
        """Return the descriptors of the folders that hold the sandboxes' groups."""
        return [tree.parent for tree in self.hierarchies]

    def exist(self) -> bool:
        """Return whether this spawner's own groups are still there. Nothing but the spawner should remove them."""
        return all(is_named(tree.home, tree.name, tree.parent) for tree in self.hierarchies)

    def remove(self, name: str) -> bool:
        """Remove a group whose processes have ended. Returns: False if the kernel still has something in it."""
        done = True
        for tree in self.hierarchies:
            try:
                os.rmdir(name, dir_fd=tree.parent)
            except FileNotFoundError:
                pass
            except OSError:
                done = False
        return done

    def close(self) -> None:
        """Remove this spawner's own groups."""
        for tree in self.hierarchies:
            with contextlib.suppress(OSError):
                os.rmdir(tree.name, dir_fd=tree.home)

    def clear(self, give_up_s: float) -> None:
        """Remove this spawner's groups and everything below them, trying for up to `give_up_s` seconds."""
        deadline = time.monotonic() + give_up_s
        remaining = self.hierarchies
        while remaining and time.monotonic() < deadline:
            remaining = [tree for tree in remaining if not _remove_group(tree.home, tree.name)]
            time.sleep(0.005 if remaining else 0)


def _settings(tree: _Hierarchy, limits: Limits) -> list[tuple[str, str, bool]]:
    """Return the limit files: name, value, and whether a failed write is an error. Some kernels lack some files."""
    quota = max(int(limits.cores * _PERIOD_US), 1000)
    first = tree.version == 1
    settings: list[tuple[str, str, bool]] = []
    if "memory" in tree.controllers:
        settings.append(("memory.limit_in_bytes" if first else "memory.max", str(limits.memory), True))
        swap = ("memory.memsw.limit_in_bytes", str(limits.memory)) if first else ("memory.swap.max", "0")
        settings.append((*swap, False))
        if first:  # version 2 counts socket buffers as memory
            settings.append((_SOCKET_BUFFERS, str(limits.memory), False))
    if "pids" in tree.controllers:
        settings.append(("pids.max", str(limits.processes), True))
    if "cpu" in tree.controllers:
        settings.append(("cpu.cfs_quota_us", str(quota), True) if first else ("cpu.max", f"{quota} {_PERIOD_US}", True))
    return settings


def _apply_nice_value(group: int, version: int) -> None:
    """Give a group the weight of this process's nice value.

    The scheduler treats a group as one competitor, whatever the nice values inside. Without this, `nice agentgym` would
    slow down itself but not its sandboxes.
    """
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):  # a kernel without weights still has quotas
        if version == 2:
            _write(group, "cpu.weight.nice", str(nice))
        else:
            _write(group, "cpu.shares", str(max(2, round(1024 / 1.25**nice))))


def _keep_counting_socket_buffers(group: int) -> None:
    """Make the kernel count socket buffers as long as this group exists: switching the count on each time is slow."""
    with contextlib.suppress(OSError):
        _write(group, _SOCKET_BUFFERS, "-1")


def _move_down(home: int) -> None:
    """Move the processes of a group into a child group.

    In version 2 a group that limits child groups may hold no process itself. A group that was delegated to us holds our
    process; its service expects us to move it (systemd: Delegate=yes).
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(_HOSTS_OWN, 0o755, dir_fd=home)
    for _ in range(10):  # some processes may fork meanwhile
        descriptor = os.open("cgroup.procs", os.O_RDONLY, dir_fd=home)
        try:
            pids = os.read(descriptor, 1 << 20).split()
        finally:
            os.close(descriptor)
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                _write(home, f"{_HOSTS_OWN}/cgroup.procs", pid.decode())


def _remove_dead_spawners(home: int) -> None:
    """Remove the empty groups that killed spawners have left."""
    for name in os.listdir(home):
        if is_spawners(name):
            remove_if_abandoned(home, name)


def _remove_group(home: int, name: str) -> bool:
    """Remove a spawner's group and everything below. Returns: False if something in it is still alive."""
    try:
        group = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=home)
    except OSError:
        return True
    try:
        for child in os.listdir(group):
            with contextlib.suppress(OSError):
                os.rmdir(child, dir_fd=group)
        os.rmdir(name, dir_fd=home)
    except OSError:
        return False
    finally:
        os.close(group)
    return True


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _read_in(directory: int, file: str) -> bytes:
    descriptor = os.open(file, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _write(directory: int, file: str, value: str) -> None:
    descriptor = os.open(file, os.O_WRONLY, dir_fd=directory)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
