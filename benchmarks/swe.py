"""What a repository task costs: its start beside a bare sandbox, its judging beside pytest alone; and whether 200 in a
row leave anything behind.

    python benchmarks/swe.py [--rounds 40] [--judged 5] [--episodes 200]

A task's start forks the prepared repository; the limit is a sandbox of the same kind without one, made in the same
run, turn about. A patch that is wrong, and one that is right, are judged in turn with `pytest` on the same test files
without a sandbox. Eight episodes run the tests of the package at the same time: how much memory do they hold? Then one
episode after another is played, each of which leaves a process running and files lying about: what is there of ours is
counted before the first, and when all are over (`soak_census.py` says what). The package, sqlparse with a bug in one
line, comes from the cache, or the package index. Exit status 0 if the targets are met and nothing is left.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median

from figures import show_table
from rich.table import Table
from soak_census import bury, census, grown, processes_below

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task, make, registry
from agentgym.sandbox.guest import kernel
from agentgym.sandboxes.swe.environment import SweEdit
from agentgym.sandboxes.swe.judge import RepositoryTests
from agentgym.sandboxes.swe.patch import make_patch
from agentgym.sandboxes.swe.repository import Repository
from agentgym.sandboxes.swe.sources import fetch

AT_ONCE = 8
PACKAGE, BUGGY = "sqlparse==0.5.1", "sqlparse/utils.py"
SAME = (b"val = val[1:-1]", b"val = val[1:-1]")
BUG = (b"val = val[1:-1]", b"val = val[1:]")
OTHER_BUG = (b"val = val[1:-1]", b"val = val[2:]")


async def starts(task: Task, rounds: int) -> tuple[list[float], list[float]]:
    """Return milliseconds of `rounds` starts of the task, and of the same number of bare sandboxes, in turn."""
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


async def judged(rounds: int) -> dict[str, list[float]]:
    """Return seconds of `rounds` runs of pytest on the package's tests, and of judging a wrong and a right patch."""
    package = Repository.from_archive(fetch(PACKAGE).read_bytes(), PACKAGE)
    files = sorted(path for path in package.files if path.startswith("tests/test_"))
    right = package.files[BUGGY]
    bug, gold, wrong = (
        make_patch({BUGGY: right.replace(*before)}, {BUGGY: right.replace(*after)})
        for before, after in ((SAME, BUG), (BUG, SAME), (BUG, OTHER_BUG))
    )
    task = Task("judged", "agentgym/swe-v1", "-", parameters={"repository": PACKAGE, "patch": bug}, truth={})
    reward = RepositoryTests()
    with_bug, without = await reward.judge(task, "", files), await reward.judge(task, gold, files)
    assert with_bug is not None and without is not None
    passing = list(filter(without.passed, without.outcomes))
    failing = [test for test in passing if not with_bug.passed(test)]
    unbroken = [test for test in passing if with_bug.passed(test)]
    truth = {"fail_to_pass": failing, "pass_to_pass": unbroken, "tests": ["tests/*"], "gold": gold}
    task = replace(task, truth=truth)
    seconds: dict[str, list[float]] = {"pytest alone": [], "a wrong patch": [], "a right patch": []}
    with tempfile.TemporaryDirectory() as folder:
        for path, content in package.files.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_bytes(content)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", "passing", *files]
        for _ in range(rounds + 1):
            for name, patch, success in (
                ("pytest alone", "", 0),
                ("a wrong patch", wrong, 0),
                ("a right patch", gold, 1),
            ):
                started = time.perf_counter()
                if patch:
                    assert (await reward.score(task, patch))["success"] == success
                else:
                    environment = {**os.environ, "PYTHONPATH": folder}
                    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
                seconds[name].append(time.perf_counter() - started)
    return {name: values[1:] for name, values in seconds.items()}


async def in_a_row(task: Task, episodes: int) -> tuple[float, int, set[int]]:
    """Return seconds per episode, the growth in MiB from first to last episode, and the processes at the end."""
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


async def side_by_side(task: Task, count: int) -> list[float]:
    """Return the peak MiB per episode of `count` episodes that run the repository's tests at the same time."""
    environments = [make(task.environment) for _ in range(count)]
    try:
        await asyncio.gather(*(environment.reset(task.public(), seed=0) for environment in environments))
        results = await asyncio.gather(*(environment.call(Call("test", {})) for environment in environments))
        assert all(result.ok for result in results), results[0].content
        return [(await environment._sandbox.usage()).peak_memory_mib for environment in environments]
    finally:
        await asyncio.gather(*(environment.close() for environment in environments))


def left_behind(before: dict[str, Counter[str]], private: Path, pids: set[int]) -> list[str]:
    """Return what has increased since before, after ending processes have ended."""
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


async def measure(
    options: argparse.Namespace,
) -> tuple[list[float], list[float], dict[str, list[float]], list[float], float, int, set[int]]:
    """Starts of the task and of bare sandboxes, and what `judged`, `side_by_side` and `in_a_row` tell."""
    fetch(PACKAGE)
    truth = {"fail_to_pass": ["none.py::test"], "tests": ["tests/*"]}
    task = Task("bench", "agentgym/swe-v1", "-", parameters={"repository": PACKAGE}, truth=truth)
    try:
        ours, bare = await starts(task, options.rounds)
        seconds, held = await judged(options.judged), await side_by_side(task, AT_ONCE)
        return ours, bare, seconds, held, *await in_a_row(task, options.episodes)
    finally:
        await registry.close_backends()


def main() -> int:
    """Measure, print the results, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, help="starts of the task")
    parser.add_argument("--judged", type=int, default=5, help="patches of each kind that are judged")
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    kernel.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="swe-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        before = census(Path(folder))
        ours, bare, seconds, held, took, memory, pids = asyncio.run(measure(options))
        left = left_behind(before, Path(folder), pids)
    above = median(ours) - median(bare)
    table = Table(
        title=f"{PACKAGE}, {options.rounds} starts, {options.judged} of each kind judged", title_justify="left"
    )
    for name in ("what", "figure", "limit in the same run", "target"):
        table.add_column(name)
    table.add_row("start of a task", f"{median(ours):.1f} ms", f"{median(bare):.1f} ms, a bare sandbox", "")
    table.add_row("of that, the repository", f"{above:.1f} ms", f"x {median(ours) / median(bare):.2f}", "at most 10 ms")
    alone = median(seconds.pop("pytest alone"))
    for name, values in seconds.items():
        figures = (f"{median(values):.2f} s", f"{alone:.2f} s, pytest alone on the same files")
        table.add_row(f"judging {name}", *figures, f"x {median(values) / alone:.2f}")
    largest = f"{max(held):.0f} MiB, the largest of them"
    table.add_row(f"memory of {AT_ONCE} that test at once", f"{sum(held):.0f} MiB", largest, "")
    table.add_row(f"{options.episodes} episodes in a row", f"{1000 * took:.0f} ms each, 4 at once", "", "")
    table.add_row("memory after them", f"{memory:+d} MiB", "", "")
    table.add_row(
        "left behind",
        "\n".join(left) or f"nothing: no {', '.join(list(before)[:-1])}, {list(before)[-1]}",
        "",
        "nothing",
    )
    show_table(table)
    return int(above > 10 or bool(left))


if __name__ == "__main__":
    sys.exit(main())
