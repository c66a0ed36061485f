"""Does the gold patch solve every repository task, and handing in nothing none? `python benchmarks/swe_gold.py FILE`.

    python benchmarks/swe_gold.py bugs.jsonl [--each 6] [--at-once 4]

Gold patches are played as an agent would hand them in: patch, submit, judged in another sandbox. For nothing, the tests
are run on the repository as the agent finds it: some of those to be mended must fail. Exit status 0 if both hold.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import defaultdict
from statistics import median

from rich.console import Console
from rich.table import Table

from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, Task, load_task_set, registry
from agentgym.messages import ResultStatus
from agentgym.sandboxes.swe.judge import RepositoryTests


async def gold(task: Task) -> bool:
    """Return whether the gold patch, played in an episode, solves the task. Raises: RuntimeError if that fails."""
    moves = [Call("patch", {"diff": task.truth["gold"]}), Call("submit")]
    policy = ScriptedPolicy([Message("assistant", "", (move,)) for move in moves])
    [episode] = await EpisodeManager(policy).collect([task])
    if not episode.valid:
        raise RuntimeError(f"{task.id}: {episode.error}")
    fits = episode.turns[0].results[0].status is ResultStatus.OK
    return fits and episode.outcome["success"] == 1


async def nothing(task: Task) -> bool:
    """Return whether the tests to be mended pass on the unchanged repository."""
    verdict = await RepositoryTests().judge(task, "", task.truth["fail_to_pass"])
    assert verdict is not None  # an empty patch fits
    return all(map(verdict.passed, task.truth["fail_to_pass"]))


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", help="task set, JSON lines")
    parser.add_argument("--each", type=int, help="so many of each package, evenly drawn; all if not given")
    parser.add_argument("--at-once", type=int, default=4, help="tasks side by side")
    options = parser.parse_args()
    packages: dict[tuple[str, str], list[Task]] = defaultdict(list)
    tasks = load_task_set(options.file)
    for split in tasks:
        for task in tasks[split]:
            packages[split, task.tags[0]].append(task)
    gate = asyncio.Semaphore(options.at_once)

    async def both(task: Task) -> tuple[bool, bool]:
        async with gate:
            return await gold(task), await nothing(task)

    table = Table(title=options.file, title_justify="left")
    for name in ("package", "split", "tasks", "failing tests", "passing tests", "tried", "gold solves", "nothing does"):
        table.add_column(name)
    wrong = 0
    try:
        for (split, package), of_package in packages.items():
            chosen = (
                of_package[:: max(1, len(of_package) // options.each)][: options.each] if options.each else of_package
            )
            results = await asyncio.gather(*map(both, chosen))
            solved, idle = (sum(column) for column in zip(*results, strict=True))
            wrong += len(chosen) - solved + idle
            failing, passing = (
                median(len(task.truth[of]) for task in of_package) for of in ("fail_to_pass", "pass_to_pass")
            )
            figures = (len(of_package), f"{failing:g}", f"{passing:g}", len(chosen), solved, idle)
            table.add_row(package, split, *map(str, figures))
            named = [task.id for task, (done, free) in zip(chosen, results, strict=True) if free or not done]
            print(package, split, *figures, *named, flush=True)
    finally:
        await registry.close_backends()
    Console().print(table)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
