"""Count what sandboxes could leave behind on a host: for benchmarks/soak.py, before and after."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

FOLDERS = ("/tmp", "/dev/shm", "/run", "/var/tmp")


def processes_below(pid: int) -> dict[int, str]:
    """Return the command line of every descendant of a process, by pid, including zombies."""
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
    """Return the command line of a process; empty if it is gone, or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:500]
    except OSError:
        return ""


def bury() -> Iterator[int]:
    """Reap children that have ended, including orphans that this process has adopted. Yields: their ids."""
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) > 0:
            yield pid


def network_namespaces(pids: Collection[int]) -> set[str]:
    """Return the network namespaces of some processes."""
    namespaces = set()
    for pid in pids:
        try:
            namespaces.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            continue
    return namespaces


def groups(spawners: Collection[int] | None) -> list[str]:
    """Return the control groups that these spawners have made; None means any spawner."""
    return [
        str(Path(at, name))
        for at, below, _ in os.walk("/sys/fs/cgroup")
        for name in below
        if re.fullmatch(r"agentgym-\d+", name) and ours(name, spawners)
    ]


def files(private: Path, pids: Collection[int] | None) -> set[str]:
    """Return all files in our own temporary folder, and those in the machine's that are named after our processes."""
    paths = {str(path) for path in private.rglob("*")}
    for folder in FOLDERS:
        try:
            paths |= {f"{folder}/{name}" for name in os.listdir(folder) if ours(name, pids)}
        except OSError:
            continue
    return paths


def sockets(pids: Collection[int] | None) -> set[str]:
    """Return the Unix sockets that are named after our processes."""
    names = [line.split()[-1] for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()]
    return {name for name in names if ours(name, pids)}


def ours(name: str, pids: Collection[int] | None) -> bool:
    """Return whether a name contains one of these process ids, or, for None, any process id."""
    return "agentgym" in name and any(pids is None or int(number) in pids for number in re.findall(r"\d+", name))


def host_memory() -> dict[str, float]:
    """Return figures of the whole machine, MiB and counts; our part is visible only on a quiet machine."""
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
    """Return everything of ours that exists now, by kind, including this process and its resources.

    Args:
        pids: the ids of all processes that were ever ours. None counts things named after any process: use it before
            our first process, because leftovers of an old process may have the id of a later one.
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
    """Return one line for each kind of which there is more."""
    lines = []
    for kind, now in after.items():
        more = now - before[kind]
        if more:
            lines.append(f"{more.total()} {kind} left: {', '.join(sorted(more)[:3])}"[:400])
    return lines
