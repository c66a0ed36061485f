"""What snapshots, forks and resets of files cost: `python benchmarks/sandbox_files.py [--rounds 30] [--json FILE]`.

A tree of 6,500 files, 50 MB. Each round forks it, changes 30 files, takes a snapshot of the fork, resets it, and checks
that files came back by their content hash. Beside it, in the same run: `cp -a` of the same tree, and a plain sandbox.
Medians of wall time; the figures mean something on a quiet machine only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from agentgym.sandbox.contract import Sandbox, Snapshot
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces import NamespacesBackend

SPEC = SandboxSpec(memory_mib=512, disk_mib=128, insecure_ok=True)
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


@dataclass(frozen=True)
class Row:
    """One figure in milliseconds, and the most it may be."""

    name: str
    value_ms: float
    target_ms: float | None = None

    @property
    def holds(self) -> bool:
        return self.target_ms is None or self.value_ms <= self.target_ms


def main() -> int:
    """Measure everything, print a table. Returns: 0 if every target holds, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    rows = asyncio.run(measured(options.rounds))
    table = Table("what", "ms", "at most", "", title="files of sandboxes, medians")
    for row in rows:
        target = f"{row.target_ms:g}" if row.target_ms is not None else ""
        table.add_row(row.name, f"{row.value_ms:.2f}", target, "" if row.holds else "[red]missed")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0 if all(row.holds for row in rows) else 1


async def measured(rounds: int) -> list[Row]:
    """Raises: SystemExit if a tree came back with other files."""
    backend = NamespacesBackend()
    try:
        maker = await backend.create(SPEC)
        made = await maker.run_python(TREE, timeout_s=120)
        if not made.ok:
            raise SystemExit(f"The tree could not be made: {made.stderr.decode()}")
        first_snapshot, base = await timed(maker.snapshot())
        first_fork, fork = await timed(backend.create(SPEC, snapshot=base))
        await fork.close()
        times: dict[str, list[float]] = {name: [] for name in ("plain", "fork", "snapshot", "reset", "dirty", "copy")}
        for _ in range(rounds):
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
        times["copy"] = copies(max(rounds // 6, 3))
    finally:
        await backend.close()
    middle = {name: median(values) for name, values in times.items()}
    return [
        Row("cp -a of the tree, memory to memory", middle["copy"]),
        Row("snapshot of the whole tree, first", first_snapshot),
        Row("fork, first: the layer is made", first_fork),
        Row("create, without files", middle["plain"]),
        Row("fork", middle["fork"]),
        Row("fork, more than a plain create", middle["fork"] - middle["plain"], 2.0),
        Row("fork of a fork, first: its layer is made", middle["dirty"]),
        Row(f"snapshot of {CHANGED} changed files", middle["snapshot"], 8.0),
        Row("reset in place", middle["reset"], 3.0),
    ]


async def timed(awaitable: Awaitable[T]) -> tuple[float, T]:
    """Returns: milliseconds, and what came of it."""
    started = time.perf_counter()
    value = await awaitable
    return 1000 * (time.perf_counter() - started), value


async def changed_files(fork: Sandbox) -> tuple[float, Snapshot]:
    """Change files, take a snapshot. Returns: milliseconds of the snapshot alone, and the snapshot."""
    done = await fork.run_python(CHANGE)
    same(done.ok, f"when files were changed: {done.stderr!r}")
    return await timed(fork.snapshot())


def copies(rounds: int) -> list[float]:
    """Milliseconds of `cp -a` of the same tree on the host, on a file system in memory."""
    times = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        subprocess.run([sys.executable, "-c", TREE], cwd=folder, check=True)
        for number in range(rounds):
            started = time.perf_counter()
            subprocess.run(["cp", "-a", "tree", f"copy-{number}"], cwd=folder, check=True)
            times.append(1000 * (time.perf_counter() - started))
            subprocess.run(["rm", "-rf", f"copy-{number}"], cwd=folder, check=True)
    return times


def same(holds: bool, where: str) -> None:
    if not holds:
        raise SystemExit(f"The files are not as they should be {where}.")


if __name__ == "__main__":
    sys.exit(main())
