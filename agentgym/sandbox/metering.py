"""Adds up the resources that sandboxes use: per call, and across several sandboxes, their resets and their ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, fields, replace

from agentgym.errors import SandboxError
from agentgym.sandbox.contract import Sandbox, Usage

GROWING = ("cpu_s", "written_bytes", "started", "wall_s", "waited_s")
"""Fields of `Usage` that only grow while a sandbox lives: the usage between two readings is their difference."""

_meters: ContextVar[tuple[CallMeter, ...]] = ContextVar("agentgym_meters", default=())


class CallMeter:
    """The resources used by commands and Python calls, summed over all sandboxes.

    Attributes:
        missing: names of the limits that some of the sandboxes do not enforce.
    """

    def __init__(self) -> None:
        self.used, self.missing = Usage(), set[str]()

    def add(self, used: Usage) -> None:
        """Add the usage of one call: keep the largest peak and the latest `disk_bytes`, and sum the rest."""
        total = self.used
        self.used = Usage(
            cpu_s=total.cpu_s + used.cpu_s,
            peak_memory_mib=max(total.peak_memory_mib, used.peak_memory_mib),
            disk_bytes=used.disk_bytes,
            written_bytes=total.written_bytes + used.written_bytes,
            started=total.started + used.started,
            wall_s=total.wall_s + used.wall_s,
            waited_s=total.waited_s + used.waited_s,
        )


@contextmanager
def metered() -> Iterator[CallMeter]:
    """Meter the sandbox calls made inside the block, and in the tasks and threads that it starts."""
    meter = CallMeter()
    token = _meters.set((*_meters.get(), meter))
    try:
        yield meter
    finally:
        _meters.reset(token)


def record_usage(used: Usage) -> None:
    """Add the usage of a finished call to every active meter. Sandboxes call this function."""
    for meter in _meters.get():
        meter.add(used)


def record_missing(limits: Iterable[str]) -> None:
    """Add the limits that a sandbox does not enforce to every active meter. Sandboxes call this function."""
    for meter in _meters.get():
        meter.missing.update(limits)


class SandboxMeter:
    """The total resources of several sandboxes, from their own counters. Ended sandboxes keep their last reading."""

    def __init__(self) -> None:
        self._last: dict[int, Usage] = {}
        self._sum = Usage()

    async def read(self, sandboxes: Sequence[Sandbox]) -> Usage:
        """Return all usage so far. Peaks are summed, which gives an upper bound of the memory held at once."""
        readings = await asyncio.gather(*map(_read_usage, sandboxes))
        for sandbox, used in zip(sandboxes, readings, strict=True):
            before = self._last.get(id(sandbox), Usage())
            if used is None:
                self._last[id(sandbox)] = replace(before, processes=0, disk_bytes=0)
                continue
            growth = usage_since(used, before)
            self._sum = replace(
                self._sum, **{name: getattr(self._sum, name) + getattr(growth, name) for name in GROWING}
            )
            self._last[id(sandbox)] = replace(used, peak_memory_mib=max(used.peak_memory_mib, before.peak_memory_mib))
        latest = self._last.values()
        return replace(
            self._sum,
            peak_memory_mib=sum(usage.peak_memory_mib for usage in latest),
            processes=sum(usage.processes for usage in latest),
            disk_bytes=sum(usage.disk_bytes for usage in latest),
        )


def usage_since(now: Usage, before: Usage) -> Usage:
    """Return the usage between two readings. If a counter went backwards, which means a reset, return `now`."""
    if any(getattr(now, name) < getattr(before, name) for name in GROWING):
        return now
    return replace(now, **{name: getattr(now, name) - getattr(before, name) for name in GROWING})


def usage_counts(used: Usage) -> dict[str, float]:
    """Return the figures by name, without zeros, for a record."""
    return {name: round(value, 6) for name, value in asdict(used).items() if value}


def combine_usage(counts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Combine the figures of several turns or episodes: the sum of each counter, the maximum of each gauge."""
    gauges = {field.name for field in fields(Usage)} - set(GROWING)
    totals: dict[str, float] = {}
    for figures in counts:
        for name, value in figures.items():
            totals[name] = max(totals.get(name, 0), value) if name in gauges else totals.get(name, 0) + value
    return totals


class BusyTime:
    """Seconds during which at least one of any number of overlapping blocks ran."""

    def __init__(self) -> None:
        self._running, self._started_at, self._earlier_s = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        return self._earlier_s + (time.monotonic() - self._started_at if self._running else 0.0)

    def __enter__(self) -> None:
        if not self._running:
            self._started_at = time.monotonic()
        self._running += 1

    def __exit__(self, *_: object) -> None:
        self._running -= 1
        if not self._running:
            self._earlier_s += time.monotonic() - self._started_at


async def _read_usage(sandbox: Sandbox) -> Usage | None:
    try:
        return await sandbox.usage()
    except SandboxError:  # closed or dead: its next call raises
        return None
