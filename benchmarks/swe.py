"""What a repository task costs: its start beside a bare sandbox; and whether 200 in a row leave anything behind.

    python benchmarks/swe.py [--package sqlparse==0.5.1] [--rounds 40] [--episodes 200]

A task's start forks the prepared repository; the limit is a sandbox of the same kind without one, made in the same
run, turn about. Then one episode after another is played, each of which leaves a process running and files lying about:
what is there of ours is counted before the first, and when all are over (`soak_census.py` says what). The package comes
from the cache, or the package index. Exit status 0 if the targets are met and nothing is left.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table
from soak_census import bury, census, grown, processes_below

from agentgym import Call, Message, Task, make, registry
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EpisodeManager, RolloutConfig
from agentgym.sandbox.guest import kernel
from agentgym.sandboxes.swe.environment import SweEdit
from agentgym.sandboxes.swe.sources import fetch


async def starts(task: Task, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of `rounds` starts of the task, and of as many bare sandboxes, turn about."""
    backend = registry.shared_backend("namespaces")
    assert SweEdit.sandbox is not None
    ours, bare = [], []
    for _ in range(rounds + 2):
        environment = make(task.environment)
        started = time.perf_counter()
        await environment.reset(task.public(), seed=0)
        ours.append(1000 * (time.perf_counter() - started))
        await environment.close()
        started = time.perf_counter()
        sandbox = await backend.create(SweEdit.sandbox)
        bare.append(1000 * (time.perf_counter() - started))
        await sandbox.close()
    return ours[2:], bare[2:]  # the first ones prepare the repository, and warm up


async def in_a_row(task: Task, episodes: int) -> tuple[float, int, set[int]]:
    """Seconds an episode, MiB more after all of them than after the first, and the processes there were at the end."""
    path = "probe.py"
    script = [
        Message("assistant", "", (Call("create", {"path": path, "content": "x = 1\n"}),)),
        Message("assistant", "", (Call("shell", {"command": "sleep 60 & ls > listing; python3 -c pass"}),)),
        Message("assistant", "", (Call("submit", {}),)),
    ]
    manager = EpisodeManager(ScriptedPolicy(script), RolloutConfig(concurrency=4))

    async def play(count: int, first: int) -> None:
        async for episode in manager.run(_tasks(task, count, first)):
            assert episode.valid, episode.error

    await play(8, 0)
    memory = _memory_mib()
    started = time.perf_counter()
    await play(episodes, 8)
    took = (time.perf_counter() - started) / episodes
    return took, _memory_mib() - memory, set(processes_below(os.getpid()))


def left_behind(before: dict[str, Counter[str]], private: Path, pids: set[int]) -> list[str]:
    """What there is more of than before, once what is ending has ended."""
    deadline = time.monotonic() + 30
    while (left := grown(before, census(private, pids))) and time.monotonic() < deadline:
        pids.update(bury())
        time.sleep(0.1)
    return left


def _tasks(task: Task, count: int, first: int) -> list[Task]:
    return [
        Task(f"{task.id}-{n}", task.environment, task.prompt, parameters=task.parameters, truth=task.truth)
        for n in range(first, first + count)
    ]


def _memory_mib() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20


async def measure(options: argparse.Namespace) -> tuple[list[float], list[float], float, int, set[int]]:
    """Starts of the task and of bare sandboxes, and what `in_a_row` tells."""
    fetch(options.package)
    truth = {"fail_to_pass": ["none.py::test"], "tests": ["tests/*"]}
    task = Task("bench", "agentgym/swe-v1", "-", parameters={"repository": options.package}, truth=truth)
    try:
        ours, bare = await starts(task, options.rounds)
        return ours, bare, *await in_a_row(task, options.episodes)
    finally:
        await registry.close_backends()


def main() -> int:
    """Measure, tell, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", default="sqlparse==0.5.1")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    kernel.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="swe-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        before = census(Path(folder))
        ours, bare, took, memory, pids = asyncio.run(measure(options))
        left = left_behind(before, Path(folder), pids)
    above = median(ours) - median(bare)
    table = Table(title=f"{options.package}, {options.rounds} rounds", title_justify="left")
    for name in ("what", "figure", "limit in the same run", "target"):
        table.add_column(name)
    table.add_row("start of a task", f"{median(ours):.1f} ms", f"{median(bare):.1f} ms, a bare sandbox", "")
    table.add_row("of that, the repository", f"{above:.1f} ms", f"x {median(ours) / median(bare):.2f}", "at most 10 ms")
    table.add_row(f"{options.episodes} episodes in a row", f"{1000 * took:.0f} ms each, 4 at once", "", "")
    table.add_row("memory after them", f"{memory:+d} MiB", "", "")
    table.add_row(
        "left behind",
        "\n".join(left) or f"nothing: no {', '.join(list(before)[:-1])}, {list(before)[-1]}",
        "",
        "nothing",
    )
    Console().print(table)
    return int(above > 10 or bool(left))


if __name__ == "__main__":
    sys.exit(main())
