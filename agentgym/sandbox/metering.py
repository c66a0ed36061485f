"""Adding up what sandboxes use: by the call that caused it, and over several sandboxes, resets and ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, fields, replace

from agentgym.errors import SandboxError
from agentgym.sandbox.contract import Sandbox, Usage

GROWING = ("cpu_s", "written_bytes", "started", "wall_s")
"""What only grows while a sandbox lives, so that a difference says what was used in between."""

_meters: ContextVar[tuple[CallMeter, ...]] = ContextVar("agentgym_meters", default=())


class CallMeter:
    """The sum of what commands and Python calls used, in whichever sandbox."""

    def __init__(self) -> None:
        self.used = Usage()

    def add(self, used: Usage) -> None:
        """Add one call. Peaks are not added up: the largest counts, as does the last of what is held."""
        self.used = Usage(
            self.used.cpu_s + used.cpu_s, max(self.used.peak_memory_mib, used.peak_memory_mib),
            disk_bytes=used.disk_bytes, written_bytes=self.used.written_bytes + used.written_bytes,
            started=self.used.started + used.started, wall_s=self.used.wall_s + used.wall_s,
        )  # fmt: skip


@contextmanager
def metered() -> Iterator[CallMeter]:
    """Count what is called inside the block, and in the tasks and threads it starts, but not beside it."""
    meter = CallMeter()
    token = _meters.set((*_meters.get(), meter))
    try:
        yield meter
    finally:
        _meters.reset(token)


def note(used: Usage) -> None:
    """Told by a sandbox what a call in it used."""
    for meter in _meters.get():
        meter.add(used)


class SandboxMeter:
    """What some sandboxes have used together, from their own counters. Those that ended count as last read."""

    def __init__(self) -> None:
        self._last: dict[int, Usage] = {}
        self._sum = Usage()

    async def read(self, sandboxes: Sequence[Sandbox]) -> Usage:
        """All use so far. Peaks are added up: an upper bound of what was held by all at once."""
        now = await asyncio.gather(*map(_reading, sandboxes))
        for sandbox, used in zip(sandboxes, now, strict=True):
            before = self._last.get(id(sandbox), Usage())
            if used is None:
                self._last[id(sandbox)] = replace(before, processes=0, disk_bytes=0)
                continue
            grown = since(used, before)
            self._sum = replace(
                self._sum, **{name: getattr(self._sum, name) + getattr(grown, name) for name in GROWING}
            )
            self._last[id(sandbox)] = replace(used, peak_memory_mib=max(used.peak_memory_mib, before.peak_memory_mib))
        held = self._last.values()
        return replace(
            self._sum, peak_memory_mib=sum(one.peak_memory_mib for one in held),
            processes=sum(one.processes for one in held), disk_bytes=sum(one.disk_bytes for one in held),
        )  # fmt: skip


def since(now: Usage, before: Usage) -> Usage:
    """What was used between two readings. If a counter went backwards, all began anew: the sandbox was reset."""
    if any(getattr(now, name) < getattr(before, name) for name in GROWING):
        return now
    return replace(now, **{name: getattr(now, name) - getattr(before, name) for name in GROWING})


def as_counts(used: Usage) -> dict[str, float]:
    """The figures by name, for a record; what is 0 is left out."""
    return {name: round(value, 6) for name, value in asdict(used).items() if value}


def together(counts: Sequence[dict[str, float]]) -> dict[str, float]:
    """The figures of several turns or episodes: sums, but the largest of what is held rather than used up."""
    held = {field.name for field in fields(Usage)} - set(GROWING)
    found: dict[str, float] = {}
    for one in counts:
        for name, value in one.items():
            found[name] = max(found.get(name, 0), value) if name in held else found.get(name, 0) + value
    return found


class BusyTime:
    """Seconds during which at least one of any number of things ran."""

    def __init__(self) -> None:
        self._running, self._since, self._before = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        return self._before + (time.monotonic() - self._since if self._running else 0.0)

    def __enter__(self) -> None:
        if not self._running:
            self._since = time.monotonic()
        self._running += 1

    def __exit__(self, *_: object) -> None:
        self._running -= 1
        if not self._running:
            self._before += time.monotonic() - self._since


async def _reading(sandbox: Sandbox) -> Usage | None:
    try:
        return await sandbox.usage()
    except SandboxError:  # closed, or dead: whoever uses it next is told
        return None
