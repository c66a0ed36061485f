"""Processor time of page processes: a busy host makes a page slow, so waits count processor time, not the clock."""

from __future__ import annotations

import os

MAX_S = 60.0
"""The longest wait for one answer, in wall seconds."""
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def pages_cpu_s() -> dict[str, float]:
    """Return the processor seconds that each page process has used, by process id."""
    used: dict[str, float] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    page = b"--type=renderer" in file.read()
                if page:
                    with open(f"/proc/{name}/stat", encoding="latin-1") as file:
                        fields = file.read().rpartition(")")[2].split()
                    used[name] = (int(fields[11]) + int(fields[12])) * _TICK_S
            except OSError:
                continue  # the process has ended
    return used


def busiest_s(before: dict[str, float], after: dict[str, float]) -> float:
    """Return the most processor time, in seconds, that one page process used between two readings."""
    return max((used - before.get(page, 0.0) for page, used in after.items()), default=0.0)
