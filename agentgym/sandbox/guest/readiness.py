"""Reads from /proc whether processes run or are ready to run, and the processor time that they have used."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_RUNNABLE = b"R"


class ProcessState(NamedTuple):
    """A process: its parent, whether its first thread is ready to run, its number of threads, and its processor
    seconds.

    The seconds include those of children that it has waited for.
    """

    parent: int
    is_ready: bool
    threads: int
    cpu_s: float


def state_below(pid: int, orphans_of: set[int] | None = None) -> tuple[bool, float]:
    """Return whether any thread of a process or of its descendants is ready to run, and their total processor seconds.

    Args:
        orphans_of: if given, also count what commands left behind: all children of this process except these, and their
            descendants.
    """
    states = process_states()
    pids, front = {pid} & set(states), {pid}
    if orphans_of is not None:
        own = os.getpid()
        front |= {child for child, state in states.items() if state.parent == own and child not in orphans_of}
        pids |= front & set(states)
    while front:
        front = {child for child, state in states.items() if state.parent in front} - pids
        pids |= front
    is_ready = any(states[each].is_ready for each in pids) or any(
        thread_is_ready(each) for each in pids if states[each].threads > 1
    )
    return is_ready, sum(states[each].cpu_s for each in pids)


def process_states() -> dict[int, ProcessState]:
    """Return the state of every process that /proc shows."""
    states = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError):
                fields = _fields(f"/proc/{name}/stat")
                cpu_s = sum(int(fields[column]) for column in (11, 12, 13, 14)) * _TICK_S
                states[int(name)] = ProcessState(int(fields[1]), fields[0] == _RUNNABLE, int(fields[17]), cpu_s)
    return states


def thread_is_ready(pid: int, thread: int | None = None) -> bool:
    """Return whether one thread of a process, or any of them, runs or is ready to run."""
    try:
        threads = os.listdir(f"/proc/{pid}/task") if thread is None else [str(thread)]
        return any(_fields(f"/proc/{pid}/task/{each}/stat")[0] == _RUNNABLE for each in threads)
    except (OSError, IndexError):  # it has ended
        return False


def _fields(path: str) -> list[bytes]:
    """Return the fields of a stat file that follow the process name; the name may contain any character."""
    with open(path, "rb") as file:
        return file.read().rpartition(b")")[2].split()
