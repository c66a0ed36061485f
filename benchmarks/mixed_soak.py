"""Is an episode lost, does anything grow or stay, in an hour of mixed episodes with kills, beside a second agentgym?

    python benchmarks/mixed_soak.py [--minutes 60] [--kill-every-s 20] [--quick]

Oracles play tasks of several environments side by side, round after round. From time to time a sandbox's process 1, or
the process that makes the sandboxes, is killed (SIGKILL). Meanwhile a second agentgym in another pid namespace, which
sees none of our processes in /proc, makes and closes sandboxes. An episode is lost if its infrastructure failed, or if
the oracle did not solve it. Before and after, everything that sandboxes could leave behind is counted. Meanwhile
memory, descriptors, threads, processes and temporary files are sampled: the median of the last sixth of the time may be
a tenth higher than that of the second sixth. Exit status 0 if nothing was lost, left or grown. `--quick` takes seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table
from soak_census import bury, census, files, grown, processes_below
from soak_worker import SPAWNER_SHARE, guests, resident_mib, spawners

import agentgym
from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, Task, load_task_set

SETS = ("sql/store-v1", "sql/session-v1", "code/functions-v1", "code/shell-v1", "swe/one-line-v1", "memory/short-v1")
QUICK_SETS = ("sql/store-v1", "code/functions-v1", "memory/short-v1")
NEIGHBOUR = ("sandbox", "shell", "-c", "true")
ENDING_S = 30.0
LINE_S = 60.0
SAMPLE_S = 5.0
PAUSE_S = 2.0
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
    killed: Counter[str] = field(default_factory=Counter)
    pids: set[int] = field(default_factory=set)
    samples: list[tuple[float, ...]] = field(default_factory=list)

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
        await asyncio.sleep(PAUSE_S if time.monotonic() < until else 0)


async def kill(every_s: float, until: float, tally: Tally) -> None:
    """Kill a sandbox's process 1, or the process that makes the sandboxes, at random times."""
    rng = random.Random(0)
    while time.monotonic() < until:
        await asyncio.sleep(rng.expovariate(1 / every_s))
        what = "spawner" if rng.random() < SPAWNER_SHARE else "guest"
        if victims := spawners() if what == "spawner" else guests():
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
                tally.killed[what] += 1


FIGURES = ("MiB of this process", "MiB of those that make sandboxes", "descriptors", "threads", "processes", "files")
SLACK = (16, 16, 8, 4, 8, 8)
"""How far each figure may rise beside a tenth. The number of sandboxes at any moment varies by some."""


def sample(scratch: Path) -> tuple[float, ...]:
    """Return the figures now, in the order of FIGURES."""
    makers = spawners()
    return (
        resident_mib(),
        sum(map(resident_mib, makers)),
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
        len(processes_below(os.getpid())),
        len(files(scratch, {os.getpid(), *makers})),
    )


async def watch(tally: Tally, scratch: Path) -> None:
    """Sample the figures, remember the ids that name what sandboxes leave, and print a line a minute."""
    next_line = time.monotonic() + LINE_S
    while True:
        tally.pids |= {os.getpid(), *spawners()}
        tally.samples.append(sample(scratch))
        if time.monotonic() >= next_line:
            figures = ", ".join(f"{value:.0f} {name}" for name, value in zip(FIGURES, tally.samples[-1], strict=True))
            kills, episodes = tally.killed.total(), tally.episodes.total()
            print(f"{episodes} episodes, {tally.lost} lost, {kills} kills; {figures}", flush=True)
            next_line += LINE_S
        await asyncio.sleep(SAMPLE_S)


def trend(samples: list[tuple[float, ...]]) -> list[tuple[float, float, float]]:
    """Return the medians of the second and the last sixth, and the maximum, of each figure."""
    sixth = max(len(samples) // 6, 1)
    early, late = samples[sixth : 2 * sixth] or samples, samples[-sixth:]
    return [
        (median(row[i] for row in early), median(row[i] for row in late), max(row[i] for row in samples))
        for i in range(len(FIGURES))
    ]


def ended(pids: set[int]) -> set[int]:
    """Return the process ids that no other program's process has now, because ids are reused."""
    ours = processes_below(os.getpid())
    return {pid for pid in pids if pid in ours or pid == os.getpid() or not Path(f"/proc/{pid}").exists()}


async def soak(options: argparse.Namespace, sets: tuple[str, ...], tally: Tally, scratch: Path) -> None:
    """Play, kill and watch for the time asked for, then close all sandboxes."""
    until = time.monotonic() + 60 * options.minutes
    watching = asyncio.create_task(watch(tally, scratch))
    try:
        players = [play(name, until, options.at_once, tally) for name in sets]
        await asyncio.gather(neighbour(until, tally), kill(options.kill_every_s, until, tally), *players)
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
    parser.add_argument("--kill-every-s", type=float, default=20.0, help="mean time from one kill to the next")
    parser.add_argument("--quick", action="store_true", help="three task sets for ten seconds")
    options = parser.parse_args()
    if options.quick:
        options.minutes, options.kill_every_s = 1 / 6, 3.0
    sets = QUICK_SETS if options.quick else SETS
    tally, started = Tally(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mixed-soak-") as scratch:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        before = census(Path(scratch))
        asyncio.run(soak(options, sets, tally, Path(scratch)))
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
    trends = Table("figure", "second sixth", "last sixth", "most")
    for name, figures in zip(FIGURES, trend(tally.samples), strict=True):
        trends.add_row(name, *(f"{value:.0f}" for value in figures))
    console.print(trends)
    rising = [
        f"{name} rose from {early:.0f} to {late:.0f}"
        for name, slack, (early, late, _) in zip(FIGURES, SLACK, trend(tally.samples), strict=True)
        if late > 1.1 * early + slack and not options.quick
    ]
    kills = ", ".join(f"{count} x {what}" for what, count in tally.killed.items()) or "nothing"
    console.print(f"{tally.episodes.total()} episodes in {time.monotonic() - started:.0f} s, {tally.lost} lost")
    console.print(f"killed: {kills}")
    second = ", ".join(f"{count} with exit code {code}" for code, count in tally.neighbours.items())
    console.print(f"second agentgym: {second}")
    console.print("\n".join(left + rising) or "nothing left behind, nothing grew", markup=False)
    return 1 if tally.lost or left or rising or set(tally.neighbours) != {0} else 0


if __name__ == "__main__":
    sys.exit(main())
