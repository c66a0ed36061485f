"""Waits for killed processes to end. Agent code can make this slow, because the kernel must remove all that it made.

Processor time tells whose fault a long wait is. If the sandbox's own processes used up the machine's time while they
were ending, it is the agent's fault. If they got hardly any time, the machine is overloaded, or they wait for another
sandbox.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable
from typing import TypeVar

from . import surroundings

T = TypeVar("T")

PATIENCE_S = 3.0
_OWN_SHARE = 0.25  # of a core
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0002, 0.01
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class TeardownStalled(Exception):
    """The processes of agent code do not end, because of what they made. The sandbox can no longer be used."""


def wait_for(pid: int) -> tuple[int, resource.struct_rusage]:
    """Wait for a child's end. Returns: its wait status; the usage of the child and of the children it waited for.

    Raises: TeardownStalled.
    """

    def ended() -> tuple[int, resource.struct_rusage] | None:
        ended_pid, status, used = os.wait4(pid, os.WNOHANG)
        return (status, used) if ended_pid else None

    return await_end(ended)


def wait_for_all() -> None:
    """Wait for the end of every child. Raises: TeardownStalled."""

    def all_ended() -> bool | None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        return None

    await_end(all_ended)


def await_end(look: Callable[[], T | None]) -> T:
    """Call `look` until it returns something. Raises: TeardownStalled."""
    for pause_s in (0.0, _FIRST_PAUSE_S, 5 * _FIRST_PAUSE_S):  # these pauses are nearly always enough
        time.sleep(pause_s)
        result = look()
        if result is not None:
            return result
    began, used_before, due_s = time.monotonic(), processor_s(), PATIENCE_S
    while (result := look()) is None:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        waited_s = time.monotonic() - began
        if waited_s > due_s:
            if processor_s() - used_before > _OWN_SHARE * waited_s:
                raise TeardownStalled
            due_s += PATIENCE_S / 4
    return result


def processor_s() -> float:
    """Return the processor seconds that the sandbox's processes have used, including ended ones.

    This process is left out: it waits, and may serve requests.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = ended.ru_utime + ended.ru_stime
    for pid in surroundings.agent_pids():
        with contextlib.suppress(OSError):  # it has ended
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            total += (int(fields[11]) + int(fields[12])) * _TICK_S
    return total
