"""Builds a validated task set from a recipe of packages, with a journal from which a killed build resumes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import combinations, islice, zip_longest
from pathlib import Path

from agentgym import Task, TaskError, TaskSet, seed_of
from agentgym.storage import Journal

from ..judge import RepositoryTests
from .mutations import mutations
from .package import Package
from .recipe import BugRecipe
from .releases import release_task
from .trial import Bug, Trials, facts_of, trials_of

AT_ONCE = 8
"""How many bugs of a package are chosen before the first of them is tried. This number is fixed, so that the resulting
set does not depend on the number of processors."""
Caught = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """The progress of a build: a package's tried bugs, its finished and planned tasks, and the finished tasks of all
    packages. `ended`: whether the package is done.
    """

    package: str
    tried: int
    tasks: int
    target: int
    all_tasks: int
    ended: bool = False


@dataclass(slots=True)
class _Build:
    recipe: BugRecipe
    judge: RepositoryTests
    journal: Journal
    slots: asyncio.Semaphore
    progress: Callable[[BuildProgress], None]
    tasks: list[Task] = field(default_factory=list)


async def build(
    recipe: BugRecipe,
    out: Path,
    *,
    judge: RepositoryTests | None = None,
    concurrency: int = 2,
    progress: Callable[[BuildProgress], None] = lambda _: None,
    left_out: Callable[[str, str], None] = lambda package, reason: None,
) -> TaskSet:
    """Build the task set of a recipe and write it to `out`, one task per line.

    Every result is written immediately to a journal (`out` + .journal), so a killed build only repeats the trials that
    were in progress, at most `concurrency` of them.

    Args:
        left_out: called with each package that yields no task, and the reason.
    Raises: TaskError if no package gives a task; JudgeError if no sandbox runs.
    """
    judge = judge or RepositoryTests(cpu_s=60, timeout_s=120)
    journal = Journal(out.with_name(out.name + ".journal"))
    building = _Build(recipe, judge, journal, asyncio.Semaphore(concurrency), progress)
    reasons: list[str] = []
    for package in recipe.packages:
        try:
            async with aclosing(_tasks_of(building, package)) as tasks:
                async for task in tasks:
                    building.tasks.append(task)
        except TaskError as error:
            reasons.append(str(error))
            left_out(package.pinned, str(error))
    for release in recipe.releases:
        key = repr(release)
        try:
            if key not in journal:
                task = await release_task(release, judge)
                journal.write(key, task.to_json())
            building.tasks.append(Task.from_json(journal[key]))
            progress(BuildProgress(f"{release.old.pinned} to {release.new}", 1, 1, 1, len(building.tasks), True))
        except TaskError as error:
            reasons.append(str(error))
            left_out(f"{release.old} to {release.new}", str(error))
    if not building.tasks and reasons:
        raise TaskError(f"No package of the recipe gave a task. The first reason: {reasons[0]}")
    splits: dict[str, list[Task]] = {"train": [], "validation": [], "held_out": []}
    for task in building.tasks:
        splits[task.split].append(task)
    task_set = TaskSet(recipe.name, splits)
    out.parent.mkdir(parents=True, exist_ok=True)
    task_set.to_jsonl(out)
    journal.remove()
    return task_set


async def _tasks_of(building: _Build, package: Package) -> AsyncGenerator[Task, None]:
    """Yield validated tasks of one package, in an order that depends only on the seed."""
    recipe, journal = building.recipe, building.journal
    repository = await asyncio.to_thread(package.fetch)
    package = package.located(repository)
    name = f"{recipe.name}:{recipe.seed}:{package!r}"
    if name not in journal:
        journal.write(name, await facts_of(package, building.judge))
    trials = trials_of(package, repository, building.judge, journal[name])
    target = recipe.each + recipe.pairs
    counts: Counter[str] = Counter()
    singles: list[tuple[Bug, Task]] = []
    tried = task_count = 0

    def show(*, ended: bool = False) -> None:
        building.progress(BuildProgress(package.pinned, tried, task_count, target, len(building.tasks), ended))

    async def results(bugs: Sequence[tuple[Bug, Caught]]) -> list[Task | None]:
        return await asyncio.gather(*(_tried(building, trials, name, *bug) for bug in bugs))

    seed = seed_of(recipe.name, package.pinned, recipe.seed)
    waiting = iter(_candidates(trials, seed))
    while task_count < recipe.each and (batch := list(islice(waiting, AT_ONCE))):
        bugs = [bug for bug in batch if _is_allowed(bug, counts, recipe)]
        for bug, task in zip(bugs, await results([(bug, ()) for bug in bugs]), strict=True):
            tried += 1
            if task is not None and task_count < recipe.each and _is_allowed(bug, counts, recipe):
                task_count += 1
                counts.update(_counted(bug))
                singles.append((bug, task))
                yield task
        show()
    pairs = iter(_pairs(singles, seed))
    while task_count < len(singles) + recipe.pairs and (chosen := list(islice(pairs, AT_ONCE))):
        for task in await results(chosen):
            tried += 1
            if task is not None and task_count < len(singles) + recipe.pairs:
                task_count += 1
                yield task
        show()
    show(ended=True)
    if not task_count:
        reason = f"its tests catch none of {tried} bugs" if tried else "its tests reach no function of it"
        raise TaskError(f"{package.pinned} gives no task: {reason}.")


async def _tried(building: _Build, trials: Trials, name: str, bug: Bug, caught: Caught) -> Task | None:
    """Return a bug's task, from the journal or by trying it now; None if the bug makes no task."""
    key = f"{name}:{bug.key}"
    if key not in building.journal:
        async with building.slots:
            task = await trials.task(bug, caught)
        building.journal.write(key, None if task is None else task.to_json())
    row = building.journal[key]
    return None if row is None else Task.from_json(row)


def _candidates(trials: Trials, seed: int) -> list[Bug]:
    """Return all bugs that the rules find in a package, in trial order: one of each kind in turn."""
    by_kind: dict[str, list[Bug]] = {}
    for path, source in trials.sources.items():
        for mutation in mutations(source):
            if trials.reach.tests_of(path, mutation.function):
                by_kind.setdefault(mutation.kind, []).append(Bug({path: mutation}))
    rng = random.Random(seed)
    for _, bugs in sorted(by_kind.items()):
        rng.shuffle(bugs)
    ordered: list[Bug] = []
    for one_of_each in zip_longest(*(bugs for _, bugs in sorted(by_kind.items()))):
        ordered += [bug for bug in one_of_each if bug is not None]
    return ordered


def _counted(bug: Bug) -> list[str]:
    return [bug.kind, *(f"{path}:{function}" for path, function in bug.functions)]


def _is_allowed(bug: Bug, counts: Counter[str], recipe: BugRecipe) -> bool:
    kind, *functions = _counted(bug)
    return counts[kind] < recipe.of_a_kind and all(counts[function] < recipe.of_a_function for function in functions)


def _pairs(singles: Sequence[tuple[Bug, Task]], seed: int) -> list[tuple[Bug, Caught]]:
    """Join two bugs in different files into one, with the tests that catch only the first or only the second."""
    pairs: list[tuple[Bug, Caught]] = []
    for (first, its_task), (second, other_task) in combinations(singles, 2):
        if set(first.places) & set(second.places) or "removed" in (first.kind, second.kind):
            continue
        first_tests, second_tests = (set(task.truth["fail_to_pass"]) for task in (its_task, other_task))
        if first_tests - second_tests and second_tests - first_tests:
            pairs.append(
                (
                    Bug({**first.places, **second.places}),
                    [sorted(first_tests - second_tests), sorted(second_tests - first_tests)],
                )
            )
    random.Random(seed).shuffle(pairs)
    return pairs
