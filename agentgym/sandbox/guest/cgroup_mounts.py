"""Find control groups: the mounted hierarchies, and the group of a process in each."""

from __future__ import annotations

from typing import NamedTuple


class CgroupMount(NamedTuple):
    """A mounted hierarchy of control groups.

    Attributes:
        version: 1 or 2. point: where it is mounted. root: the group that is seen there, as a path in the hierarchy.
        options: the options of the mount; in version 1 they name its controllers.
    """

    version: int
    point: str
    root: str
    options: tuple[str, ...]

    def inside(self, group: str) -> str:
        """Return a group's path below the mount point, without slashes at its ends.

        `group`: its path in the hierarchy.
        """
        root = self.root.rstrip("/")
        return group[len(root) :].strip("/") if f"{group}/".startswith(f"{root}/") else group.strip("/")

    def group_with(self, controller: str, groups: dict[str, str]) -> str | None:
        """Return the path of a process's group below the mount point; None if the hierarchy does not have the
        controller.

        Args:
            groups: the process's groups, from `cgroups_of`. A hierarchy of version 2 counts as having every controller.
        """
        group = groups.get(controller if self.version == 1 else "")
        if group is None or (self.version == 1 and controller not in self.options):
            return None
        return self.inside(group)


def cgroup_mounts() -> list[CgroupMount]:
    """Return every mounted hierarchy that this process can see."""
    mounts = []
    for line in _lines("/proc/self/mountinfo"):
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            fields = left.split(" ")
            version = 1 if kind == "cgroup" else 2
            mounts.append(CgroupMount(version, fields[4], fields[3], tuple(options.split(" ")[-1].split(","))))
    return mounts


def cgroups_of(process: int | str = "self") -> dict[str, str]:
    """Return a process's group for each controller. The group of version 2, which names no controllers, has the key "".

    Returns: an empty mapping for a process that has ended.
    """
    groups: dict[str, str] = {}
    for line in _lines(f"/proc/{process}/cgroup"):
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
