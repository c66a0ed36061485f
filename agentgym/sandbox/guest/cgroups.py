"""Limits over all processes of a sandbox together: control groups, version 1 or 2, whichever has the controller."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field

from .root import HOST

CONTROLLERS = ("memory", "pids", "cpu")
_PERIOD_US = 100_000


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use: bytes, processes and threads, cores."""

    memory: int
    processes: int
    cores: float


@dataclass
class _Hierarchy:
    """One mounted tree and the controllers used from it; `parent` is a descriptor of this spawner's own group."""

    version: int
    home: int
    parent: int
    controllers: tuple[str, ...]


@dataclass
class Cgroups:
    """The control groups of one spawner's sandboxes."""

    hierarchies: list[_Hierarchy] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"agentgym-{os.getpid()}")

    @classmethod
    def open(cls) -> Cgroups:
        """Find the trees this process may write in. What cannot be had is in `missing`, with the reason."""
        self = cls()
        own, trees = _own_groups(), _mounted_trees()
        wanted = list(CONTROLLERS)
        for version, mount_point, root, options in trees:
            offered = [name for name in wanted if version == 1 and name in options]
            if version == 2:
                offered = [name for name in wanted if name in _read(f"{mount_point}/cgroup.controllers").split()]
            if not offered:
                continue
            inside = own.get(offered[0] if version == 1 else "", "/")
            inside = inside[len(root) :] if root != "/" and inside.startswith(root) else inside
            try:
                self._adopt(version, mount_point, inside, offered)
            except OSError as error:
                self.missing.update(dict.fromkeys(offered, f"{error.strerror} in {mount_point.removeprefix(HOST)}"))
                continue
            wanted = [name for name in wanted if name not in offered]
            for name in offered:
                self.missing.pop(name, None)
        for name in wanted:
            self.missing.setdefault(name, "no cgroup tree offers this controller")
        self.missing.pop("pids", None)  # RLIMIT_NPROC counts per user namespace, so per sandbox, and does as well
        return self

    def _adopt(self, version: int, mount_point: str, inside: str, controllers: list[str]) -> None:
        candidates = dict.fromkeys([f"{mount_point}/{inside.strip('/')}".rstrip("/"), mount_point])
        failure: OSError | None = None
        for directory in candidates:  # below our own group, so that what limits us limits the sandboxes too
            try:
                home = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                failure = error
                continue
            try:
                if version == 2:
                    _write(home, "cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))
                _sweep(home)
                os.mkdir(self.name, 0o755, dir_fd=home)
                parent = os.open(self.name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=home)
                if version == 2:
                    _write(parent, "cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))
            except OSError as error:
                error.filename = directory
                failure = error
                with contextlib.suppress(OSError):
                    os.rmdir(self.name, dir_fd=home)
                os.close(home)
                continue
            self.hierarchies.append(_Hierarchy(version, home, parent, tuple(controllers)))
            return
        if failure is not None:
            raise failure

    def create(self, name: str, limits: Limits) -> None:
        """Make one sandbox's group and set its limits."""
        for tree in self.hierarchies:
            os.mkdir(name, 0o755, dir_fd=tree.parent)
            for file, value, needed in _settings(tree, limits):
                try:
                    _write(tree.parent, f"{name}/{file}", value)
                except OSError:
                    if needed:
                        raise

    def attach(self, name: str, pid: int) -> None:
        for tree in self.hierarchies:
            _write(tree.parent, f"{name}/cgroup.procs", str(pid))

    def open_memory(self, name: str) -> tuple[int, int] | None:
        """Read-only descriptors of the counter of memory kills and of the peak; None without the controller."""
        for tree in self.hierarchies:
            if "memory" in tree.controllers:
                files = ("memory.oom_control", "memory.max_usage_in_bytes")
                if tree.version == 2:
                    files = ("memory.events", "memory.peak")
                first, second = (os.open(f"{name}/{file}", os.O_RDONLY, dir_fd=tree.parent) for file in files)
                return first, second
        return None

    def forget_peak(self, name: str) -> None:
        """Count the peak of memory anew, where that can be done: version 2 keeps it for as long as the group."""
        for tree in self.hierarchies:
            if "memory" in tree.controllers and tree.version == 1:
                with contextlib.suppress(OSError):
                    _write(tree.parent, f"{name}/memory.max_usage_in_bytes", "0")

    def remove(self, name: str) -> bool:
        """Remove a group whose processes are gone. Returns: False if the kernel is not done with it yet."""
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
                os.rmdir(self.name, dir_fd=tree.home)


def _settings(tree: _Hierarchy, limits: Limits) -> list[tuple[str, str, bool]]:
    """File, value, and whether failing to write it matters (swap files exist only with swap accounting)."""
    quota = max(int(limits.cores * _PERIOD_US), 1000)
    first = tree.version == 1
    settings: list[tuple[str, str, bool]] = []
    if "memory" in tree.controllers:
        settings.append(("memory.limit_in_bytes" if first else "memory.max", str(limits.memory), True))
        swap = ("memory.memsw.limit_in_bytes", str(limits.memory)) if first else ("memory.swap.max", "0")
        settings.append((*swap, False))
    if "pids" in tree.controllers:
        settings.append(("pids.max", str(limits.processes), True))
    if "cpu" in tree.controllers:
        settings.append(("cpu.cfs_quota_us", str(quota), True) if first else ("cpu.max", f"{quota} {_PERIOD_US}", True))
    return settings


def _sweep(home: int) -> None:
    """Remove the empty groups of spawners that were killed."""
    for name in os.listdir(home):
        pid = name.removeprefix("agentgym-")
        if pid == name or not pid.isdecimal() or os.path.exists(f"/proc/{pid}"):
            continue
        with contextlib.suppress(OSError):
            group = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=home)
            for child in os.listdir(group):
                with contextlib.suppress(OSError):
                    os.rmdir(child, dir_fd=group)
            os.close(group)
            os.rmdir(name, dir_fd=home)


def _own_groups() -> dict[str, str]:
    """This process's group by controller; the version 2 tree is under the empty name."""
    groups: dict[str, str] = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), path))
    return groups


def _mounted_trees() -> list[tuple[int, str, str, list[str]]]:
    """Version, mount point, root within the tree, and options of every cgroup mount."""
    trees = []
    for line in _read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            fields = left.split(" ")
            trees.append((1 if kind == "cgroup" else 2, fields[4], fields[3], options.split(" ")[-1].split(",")))
    return trees


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _write(directory: int, file: str, value: str) -> None:
    descriptor = os.open(file, os.O_WRONLY, dir_fd=directory)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
