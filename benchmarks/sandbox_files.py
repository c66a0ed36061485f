"""Snapshots, forks and resets of the files of a sandbox, beside `cp -a` of the same tree in the same run.

The tree is 6,500 files, 50 MB. Each round forks it, changes 30 files, takes a snapshot of the fork, resets it, and
checks that files came back by their content hash.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from statistics import median
from typing import TypeVar

from sandbox_measuring import Row, timing

from agentgym import SandboxSpec
from agentgym.sandbox import NamespacesBackend, Sandbox, Snapshot

SPEC = SandboxSpec(memory_mib=512, disk_mib=128, accept_weaker=("all",))
CHANGED = 30
TREE = """
import os
for folder in range(65):
    os.makedirs(f"tree/{folder:02d}/sub")
    for number in range(100):
        with open(f"tree/{folder:02d}/{'sub/' * (number % 2)}{number:03d}.py", "wb") as file:
            file.write(f"{folder} {number}\\n".encode() * (1 + (folder * 37 + number * 91) % 1850))
"""
CHANGE = f"""
for number in range({CHANGED}):
    with open(f"tree/{{number:02d}}/sub/{{number * 2 + 1:03d}}.py", "ab") as file: file.write(b"changed")
"""

T = TypeVar("T")


async def files(rounds: int) -> list[Row]:
    """Measure snapshots, forks and resets. Raises: RuntimeError if a tree came back with other files."""
    backend = NamespacesBackend()
    try:
        maker = await backend.create(SPEC)
        result = await maker.run_python(TREE, timeout_s=120)
        same(result.ok, f"once they were made: {result.stderr!r}")
        first_snapshot, base = await timed(maker.snapshot())
        first_fork, fork = await timed(backend.create(SPEC, snapshot=base))
        await fork.close()
        times: dict[str, list[float]] = {name: [] for name in ("plain", "fork", "snapshot", "reset", "dirty", "copy")}
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            subprocess.run([sys.executable, "-c", TREE], cwd=folder, check=True)
            for number in range(rounds):
                took, plain = await timed(backend.create(SPEC))
                times["plain"].append(took)
                await plain.close()
                took, fork = await timed(backend.create(SPEC, snapshot=base))
                times["fork"].append(took)
                took, changed = await changed_files(fork)
                times["snapshot"].append(took)
                took, _ = await timed(fork.reset())
                times["reset"].append(took)
                same(base.id == (await fork.snapshot()).id, "after a reset")
                took, dirty = await timed(backend.create(SPEC, snapshot=changed))
                times["dirty"].append(took)
                same(changed.id == (await dirty.snapshot()).id != base.id, "in a fork of a fork")
                await asyncio.gather(fork.close(), dirty.close())
                if number % 6 == 0:
                    times["copy"].append(copied(folder))
    finally:
        await backend.close()
    beside = ("cp -a, memory to memory", times["copy"])
    extra = [fork - plain for fork, plain in zip(times["fork"], times["plain"], strict=True)]
    return [
        timing("fork of a 50 MB tree, more than a plain create", extra, 2.0, *beside),
        timing("  the whole of such a create", times["fork"], None, "a plain create", times["plain"]),
        timing("reset of such a fork: a new machine", times["reset"], None, *beside),
        timing(f"snapshot of {CHANGED} changed files over it", times["snapshot"], 8.0, *beside),
        timing("fork of that snapshot, first: its layer is made", times["dirty"]),
        Row("snapshot of the whole tree, first", first_snapshot, "ms"),
        Row("fork of it, first: the layer is made", first_fork, "ms", beside=beside[0], beside_value=median(beside[1])),
    ]


async def timed(awaitable: Awaitable[T]) -> tuple[float, T]:
    """Await work. Returns: its milliseconds, and its result."""
    began = time.perf_counter()
    value = await awaitable
    return 1000 * (time.perf_counter() - began), value


async def changed_files(fork: Sandbox) -> tuple[float, Snapshot]:
    """Change files, take a snapshot. Returns: milliseconds of the snapshot alone, and the snapshot."""
    done = await fork.run_python(CHANGE)
    same(done.ok, f"when files were changed: {done.stderr!r}")
    return await timed(fork.snapshot())


def copied(folder: str) -> float:
    """Return milliseconds of `cp -a` of the same tree on the host, within a file system in memory."""
    began = time.perf_counter()
    subprocess.run(["cp", "-a", "tree", "copy"], cwd=folder, check=True)
    took = 1000 * (time.perf_counter() - began)
    subprocess.run(["rm", "-rf", "copy"], cwd=folder, check=True)
    return took


def same(holds: bool, where: str) -> None:
    if not holds:
        raise RuntimeError(f"The files are not as they should be {where}.")
