"""What sandboxes could leave behind on a host, counted: for benchmarks/soak.py, before and after."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

FOLDERS = ("/tmp", "/dev/shm", "/run", "/var/tmp")


def processes_below(pid: int) -> dict[int, str]:
    """Every process that descends from one, itself left out: its pid and what it calls itself; zombies too."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
    pids_below, front = set(), {pid}
    while front:
        front = {child for child, parent in parents.items() if parent in front} - pids_below
        pids_below |= front
    return {child: command_line(child) for child in pids_below}


def command_line(pid: int) -> str:
    """How a process was started; empty if it is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:500]
    except OSError:
        return ""


def bury() -> Iterator[int]:
    """Let go of children that have ended: orphans too, of a process that adopts them. Yields their ids."""
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) > 0:
            yield pid


def network_namespaces(pids: Collection[int]) -> set[str]:
    """The network namespaces some processes are in."""
    namespaces = set()
    for pid in pids:
        try:
            namespaces.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            continue
    return namespaces


def groups(spawners: Collection[int] | None) -> list[str]:
    """Control groups that these spawners have made; None means any spawner."""
    return [
        str(Path(at, name))
        for at, below, _ in os.walk("/sys/fs/cgroup")
        for name in below
        if re.fullmatch(r"agentgym-\d+", name) and ours(name, spawners)
    ]


def files(private: Path, pids: Collection[int] | None) -> set[str]:
    """Everything in our own folder for temporary files, and what is named after a process of ours in the machine's."""
    paths = {str(path) for path in private.rglob("*")}
    for folder in FOLDERS:
        try:
            paths |= {f"{folder}/{name}" for name in os.listdir(folder) if ours(name, pids)}
        except OSError:
            continue
    return paths


def sockets(pids: Collection[int] | None) -> set[str]:
    """Unix sockets that are named after a process of ours."""
    names = [line.split()[-1] for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()]
    return {name for name in names if ours(name, pids)}


def ours(name: str, pids: Collection[int] | None) -> bool:
    """Whether something is named after one of these processes, or after any where None is given."""
    return "agentgym" in name and any(pids is None or int(number) in pids for number in re.findall(r"\d+", name))


def host_memory() -> dict[str, float]:
    """Figures of everything that runs here, MiB and counts: ours can only be told apart on a quiet machine."""
    fields = {"MemAvailable", "Shmem", "SUnreclaim"}
    sizes = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in fields:
            sizes[f"{name} MiB"] = int(rest.split()[0]) / 1024
    try:
        rows = [line.split() for line in Path("/proc/cgroups").read_text().splitlines()[1:]]
        sizes["control groups in the kernel"] = max(int(row[2]) for row in rows)
    except (OSError, ValueError):
        pass
    return sizes


def census(private: Path, pids: Collection[int] | None = None) -> dict[str, Counter[str]]:
    """What is there of ours now, by kind; this process and its own things included.

    Args:
        pids: all that were ever ours. None counts what any process has named: give it before the first of ours, since
            what a process of long ago has left may have the id of one to come.
    """
    below = processes_below(os.getpid())
    mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    return {
        "processes": Counter(f"{pid} {line}" for pid, line in below.items()),
        "network namespaces": Counter(network_namespaces(below) - network_namespaces([os.getpid()])),
        "mounts": Counter(line.split(" ", 3)[3] for line in mounts),
        "control groups": Counter(groups(pids)),
        "files": Counter(files(private, pids)),
        "sockets": Counter(sockets(pids)),
        "descriptors": Counter({"open in this process": len(os.listdir("/proc/self/fd"))}),
    }


def grown(before: dict[str, Counter[str]], after: dict[str, Counter[str]]) -> list[str]:
    """What there is more of: one line for each kind."""
    lines = []
    for kind, now in after.items():
        more = now - before[kind]
        if more:
            lines.append(f"{more.total()} {kind} left: {', '.join(sorted(more)[:3])}"[:400])
    return lines
