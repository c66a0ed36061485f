"""Is an episode lost, or anything left behind, in an hour of mixed episodes beside a second agentgym?

    python benchmarks/mixed_soak.py [--minutes 60] [--quick]

Oracles play tasks of several environments side by side, round after round. Meanwhile a second agentgym in another pid
namespace, which sees none of our processes in /proc, makes and closes sandboxes. An episode is lost if its
infrastructure failed, or if the oracle did not solve it. Before and after, everything that sandboxes could leave behind
is counted. Exit status 0 if nothing was lost or left. `--quick` takes seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from soak_census import bury, census, grown, processes_below

import agentgym
from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, Task, load_task_set

SETS = ("sql/store-v1", "sql/session-v1", "code/functions-v1", "code/shell-v1", "swe/one-line-v1", "memory/short-v1")
QUICK_SETS = ("sql/store-v1", "code/functions-v1", "memory/short-v1")
NEIGHBOUR = ("sandbox", "shell", "-c", "true")
ENDING_S = 30.0
LINE_S = 60.0
MAX_TURNS = 64
"""Twice the number of turns of the oracle in the longest tasks of sql/session-v1."""


@dataclass
class Tally:
    """The results of the episodes by task set, and the causes of lost episodes."""

    episodes: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    unsolved: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    neighbours: Counter[int] = field(default_factory=Counter)
    pids: set[int] = field(default_factory=set)

    @property
    def lost(self) -> int:
        return self.failed.total() + self.unsolved.total()


async def play(name: str, until: float, at_once: int, tally: Tally) -> None:
    """Play tasks of a set by its oracle until a given time, at least one round."""
    task_set = load_task_set(name)
    script, position = task_set.oracle, 0
    assert script is not None
    tasks = list(task_set["train"][: 20 * at_once])

    def oracle(task: Task) -> ScriptedPolicy:
        return ScriptedPolicy(script(task))

    while position == 0 or time.monotonic() < until:
        chosen = [tasks[(position + i) % len(tasks)] for i in range(min(at_once, len(tasks)))]
        manager = EpisodeManager(oracle, config(position), label=f"{name}-{position}")
        async for trajectory in manager.run(chosen):
            tally.episodes[name] += 1
            if not trajectory.scored:
                tally.failed[name] += 1
                tally.causes[f"{name}: {trajectory.error}"] += 1
            elif trajectory.success != 1:
                tally.unsolved[name] += 1
                tally.causes[f"{name}: {trajectory.task.id} was not solved"] += 1
        position += at_once


def config(seed: int) -> RolloutConfig:
    return RolloutConfig(seed=seed, budgets=Budgets(max_turns=MAX_TURNS))


async def neighbour(until: float, tally: Tally) -> None:
    """Run a second agentgym in a separate pid namespace repeatedly, at least once."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", *([] if os.geteuid() == 0 else ["-Ur"])]
    while not tally.neighbours or time.monotonic() < until:
        second = await asyncio.create_subprocess_exec(
            *command, sys.executable, "-m", "agentgym", *NEIGHBOUR, stdout=asyncio.subprocess.DEVNULL
        )
        tally.neighbours[await second.wait()] += 1


async def watch(tally: Tally) -> None:
    """Remember the id of every process below this one, and say once a minute how many episodes were played."""
    next_line = time.monotonic() + LINE_S
    while True:
        tally.pids |= {os.getpid(), *processes_below(os.getpid())}
        if time.monotonic() >= next_line:
            print(f"{tally.episodes.total()} episodes, {tally.lost} lost", flush=True)
            next_line += LINE_S
        await asyncio.sleep(0.1)


def ended(pids: set[int]) -> set[int]:
    """Return the process ids that no other program's process has now, because ids are reused."""
    ours = processes_below(os.getpid())
    return {pid for pid in pids if pid in ours or pid == os.getpid() or not Path(f"/proc/{pid}").exists()}


async def soak(seconds: float, sets: tuple[str, ...], at_once: int, tally: Tally) -> None:
    until = time.monotonic() + seconds
    watching = asyncio.create_task(watch(tally))
    try:
        await asyncio.gather(neighbour(until, tally), *(play(name, until, at_once, tally) for name in sets))
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await agentgym.close_backends()


def main() -> int:
    """Soak, print, and return 1 if an episode was lost or anything left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--at-once", type=int, default=4, help="episodes of each task set side by side")
    parser.add_argument("--quick", action="store_true", help="one round of three task sets")
    options = parser.parse_args()
    sets, seconds = (QUICK_SETS, 0.0) if options.quick else (SETS, 60 * options.minutes)
    tally, started = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mixed-soak-") as scratch:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        before = census(Path(scratch))
        asyncio.run(soak(seconds, sets, options.at_once, tally))
        ends = time.monotonic() + ENDING_S
        while (left := grown(before, census(Path(scratch), ended(tally.pids)))) and time.monotonic() < ends:
            list(bury())
            time.sleep(0.2)
    left = [line for line in left if "descriptors" not in line]  # modules that were imported keep some open
    table = Table("task set", "episodes", "failed", "unsolved")
    for name in sets:
        table.add_row(name, *(str(count[name]) for count in (tally.episodes, tally.failed, tally.unsolved)))
    console = Console(soft_wrap=True)
    console.print(table)
    for cause, count in tally.causes.most_common(10):
        console.print(f"{count} x {cause}", markup=False)
    second = ", ".join(f"{count} with exit code {code}" for code, count in tally.neighbours.items())
    console.print(f"{tally.episodes.total()} episodes in {time.monotonic() - started:.0f} s, {tally.lost} lost")
    console.print(f"second agentgym: {second}")
    console.print("\n".join(left) or "nothing left behind", markup=False)
    return 1 if tally.lost or left or set(tally.neighbours) != {0} else 0


if __name__ == "__main__":
    sys.exit(main())
