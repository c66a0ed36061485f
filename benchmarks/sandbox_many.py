"""Many sandboxes: memory of idle ones, creations per second, and the cost of one among others."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from sandbox_calls import done, live
from sandbox_measuring import SPEC, Row, children, in_turn

from agentgym.sandbox import NamespacesBackend, Sandbox

CONCURRENCY = 8
FLAT_WITHIN = 1.5
_AT_A_TIME = 16
Costs = dict[str, list[tuple[int, float]]]  # by what is measured: (sandboxes alive, milliseconds or MiB)


async def rate(count: int) -> list[Row]:
    """Return sandboxes made and closed per second, this many at a time."""
    backend = NamespacesBackend()
    todo = iter(range(count))

    async def worker() -> None:
        for _ in todo:
            await live(backend, call=False)

    try:
        await live(backend)
        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
        took = time.perf_counter() - began
    finally:
        await backend.close()
    return [Row(f"create + close, {CONCURRENCY} at once", count / took, "sandboxes / s", 200, more_is_better=True)]


async def flatness(counts: Sequence[int], rounds: int) -> tuple[list[Row], Costs]:
    """Measure the cost of one more sandbox beside this many: time to make it and to call it, and memory while idle.

    The memory is the decrease of the machine's available memory, kernel memory included, divided by the number of
    sandboxes; other programs change it too, so it says little below a hundred.
    """
    backend, idle = NamespacesBackend(), list[Sandbox]()
    costs: Costs = {"create + close": [], 'run_python("pass")': [], "MiB each": []}
    try:
        await live(backend)
        free = available_mib()
        for count in counts:
            while len(idle) < count:
                missing = min(count - len(idle), _AT_A_TIME)
                idle += await asyncio.gather(*(backend.create(SPEC) for _ in range(missing)))
            await asyncio.sleep(0.5)  # the kernel frees what it needed to make them
            gc.collect()
            costs["MiB each"].append((count, (free - available_mib()) / count))

            async def call(sandbox: Sandbox = idle[0]) -> None:
                done(await sandbox.run_python("pass"))

            times = await in_turn(
                {"create + close": lambda: live(backend, call=False), 'run_python("pass")': call}, rounds
            )
            for name, values in times.items():
                costs[name].append((count, median(values)))
        own = own_pages_mib()
    finally:
        began = time.perf_counter()
        await backend.close()
        ended = time.perf_counter() - began
    last = counts[-1]
    rows = [
        Row(f"{last:,} idle sandboxes, memory the machine has less", costs["MiB each"][-1][1], "MiB each", 1.5),
        Row(
            "  of it their processes' own pages (Pss)", own and own / last, "MiB each", note="" if own else "needs root"
        ),
        Row(f"closing all {last:,} at once", 1000 * ended / last, "ms each"),
    ]
    for name in ("create + close", 'run_python("pass")'):
        values = [value for _, value in costs[name]]
        listed = ", ".join(f"{value:.2f}" for value in values)
        rows.append(
            Row(
                f"{name}, dearest / cheapest of {listed} ms",
                max(values) / min(values),
                "x",
                FLAT_WITHIN,
                note=f"beside {', '.join(f'{count:,}' for count in counts)} that live",
            )
        )
    return rows, costs


def available_mib() -> float:
    """Return the available memory of the machine, in MiB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("This kernel does not say how much memory is available.")


def own_pages_mib() -> float | None:
    """Return the proportional memory of process 1 of every sandbox, in MiB; None if this user may not read it."""
    total = 0
    for spawner in children(os.getpid()):
        for guest in children(spawner):
            try:
                lines = Path(f"/proc/{guest}/smaps_rollup").read_text().splitlines()
            except PermissionError:
                return None
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024
