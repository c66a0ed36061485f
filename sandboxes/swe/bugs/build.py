"""From a recipe of packages to a validated task set: every bug is caught by a test, and its reverse mends it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import time
import tomllib
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym import Task, TaskError, TaskSet, seed_of, task_from_json, task_to_json

from ..judge import RepositoryTests
from ..patch import make_patch
from ..repository import Repository
from .issue import issue_text, leaks, missing_text
from .mutations import Mutation, mutations
from .package import Package

AT_MOST = 0.3
"""Of a package's tests: a bug that more of them catch is no puzzle."""
PATIENCE_S = 2
"""Processor seconds that tests have above what they take without a bug."""
DIFFICULTY = {
    "constant": 1.0,
    "boundary": 1.0,
    "operator": 1.0,
    "return": 1.0,
    "branch": 1.5,
    "call": 2.0,
    "argument": 2.0,
    "removed": 4.0,
}


@dataclass(frozen=True, slots=True)
class BugRecipe:
    """A set to build: `each` tasks of every package, with at most `of_a_kind` of one kind of bug and `of_a_function`
    of one function."""

    name: str
    packages: tuple[Package, ...]
    each: int = 40
    of_a_kind: int = 10
    of_a_function: int = 3
    seed: int = 0

    @classmethod
    def load(cls, path: str | Path) -> BugRecipe:
        """Raises: TaskError naming the file and what is wrong with it; for a package in two splits too."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise TaskError(f"Cannot read the recipe {path}: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise TaskError(f"{path} is not valid TOML: {error}.") from error
        packages = tuple(
            Package.parse(item, f"{path}, package {number}") for number, item in enumerate(data.pop("package", ()), 1)
        )
        if not packages or not isinstance(data.get("name"), str):
            raise TaskError(f"{path}: a recipe has a name and at least one [[package]].")
        if unknown := set(data) - set(cls.__slots__):
            raise TaskError(f"{path}: unknown keys {sorted(unknown)}. Known: {', '.join(cls.__slots__)}.")
        names = [package.pinned.partition("==")[0] for package in packages]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise TaskError(f"{path}: {twice[0]} is there twice. One version of a package would give away the other.")
        return cls(packages=packages, **data)


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a package is: bugs tried, tasks made, and tasks to be made."""

    package: str
    tried: int
    tasks: int
    target: int


async def build(
    recipe: BugRecipe,
    out: Path,
    *,
    judge: RepositoryTests | None = None,
    concurrency: int = 2,
    progress: Callable[[BuildProgress], None] = lambda _: None,
) -> TaskSet:
    """Build the set of a recipe and write it to `out`, one task a line.

    The tasks of each package are kept beside it (`out` + .found) once it is done: a build that was broken off goes on
    with the package it was at.
    Raises: TaskError for a package that cannot be had or has no test that passes; JudgeError if no sandbox runs.
    """
    judge = judge or RepositoryTests(cpu_s=60, timeout_s=120)
    journal = _Journal(out.with_name(out.name + ".found"))
    tasks: list[Task] = []
    for package in recipe.packages:
        tasks_of_package = journal.of(package)
        if tasks_of_package is None:
            async with aclosing(_tasks_of(package, recipe, judge, concurrency, progress)) as built_tasks:
                tasks_of_package = [task async for task in built_tasks]
            journal.keep(package, tasks_of_package)
        tasks += tasks_of_package
    splits: dict[str, list[Task]] = {"train": [], "validation": [], "held_out": []}
    for task in tasks:
        splits[task.split].append(task)
    task_set = TaskSet(recipe.name, splits)
    out.parent.mkdir(parents=True, exist_ok=True)
    task_set.to_jsonl(out)
    journal.remove()
    return task_set


async def _tasks_of(
    package: Package,
    recipe: BugRecipe,
    judge: RepositoryTests,
    concurrency: int,
    progress: Callable[[BuildProgress], None],
) -> AsyncGenerator[Task, None]:
    """Validated tasks of one package, in an order that the seed alone decides."""
    repository = await asyncio.to_thread(package.fetch)
    began = time.monotonic()
    passing = await package.passing(judge)
    judge = _impatient(judge, time.monotonic() - began)
    candidates = [
        (path, source, mutation)
        for path, source in package.breakable(repository).items()
        for mutation in mutations(source)
    ]
    random.Random(seed_of(recipe.name, package.pinned, recipe.seed)).shuffle(candidates)
    counts: Counter[str] = Counter()
    kept_count = tried_count = 0
    waiting = iter(candidates)
    while kept_count < recipe.each:
        batch = [candidate for _, candidate in zip(range(concurrency), waiting, strict=False)]
        if not batch:
            return
        selected = [
            (path, source, mutation)
            for path, source, mutation in batch
            if counts[mutation.kind] < recipe.of_a_kind and counts[f"{path}:{mutation.function}"] < recipe.of_a_function
        ]
        results = await asyncio.gather(*(_task(package, repository, judge, passing, *bug) for bug in selected))
        tried_count += len(selected)
        for (path, _, mutation), task in zip(selected, results, strict=True):
            if task is not None and kept_count < recipe.each:
                kept_count += 1
                counts[mutation.kind] += 1
                counts[f"{path}:{mutation.function}"] += 1
                yield task
        progress(BuildProgress(package.pinned, tried_count, kept_count, recipe.each))


def _impatient(judge: RepositoryTests, rounds_s: float) -> RepositoryTests:
    """One that gives the tests no more processor time than all rounds of `passing` took: many a bug is a loop without
    an end, and would use up all that the judge allows."""
    return RepositoryTests(
        cpu_s=min(judge.cpu_s, math.ceil(rounds_s) + PATIENCE_S), timeout_s=judge.timeout_s, backend=judge.backend
    )


async def _task(
    package: Package,
    repository: Repository,
    judge: RepositoryTests,
    passing: Sequence[str],
    path: str,
    source: str,
    mutation: Mutation,
) -> Task | None:
    """The task of a bug; None if no test catches it, too many do, it cannot be told of, or its reverse mends it not."""
    broken = mutation.apply(source)
    bug = make_patch({path: source.encode()}, {path: broken.encode()})
    fix = make_patch({path: broken.encode()}, {path: source.encode()})
    verdict = await judge.judge(package.task(truth={}), bug, passing)
    if verdict is None or not verdict.outcomes:
        return None
    failing = [test for test in passing if not verdict.passed(test)]
    if not 1 <= len(failing) <= max(1, AT_MOST * len(passing)):
        return None
    name = package.pinned.partition("==")[0]
    if mutation.kind == "removed":
        text: str | None = missing_text(mutation.function, path, name)
    else:
        text = issue_text(repository, failing, verdict.reasons, name)
    if text is None or leaks(text, fix):
        return None
    digest = hashlib.sha256(bug.encode()).hexdigest()[:8]
    task = package.task(
        id=f"{package.pinned.replace('==', '-')}-{mutation.kind}-{digest}",
        prompt=text,
        patch=bug,
        truth={
            "fail_to_pass": failing,
            "pass_to_pass": [test for test in passing if verdict.passed(test)],
            "tests": list(package.test_files),
            "gold": fix,
        },
        tags=(name, mutation.kind),
        difficulty=DIFFICULTY[mutation.kind],
    )
    mended = await judge.judge(task, fix, passing)
    return task if mended is not None and all(map(mended.passed, passing)) else None


class _Journal:
    """Packages that are done, one line each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, Any] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue  # cut short when the build was killed: done again
                self._lines[row["package"]] = row["tasks"]

    def of(self, package: Package) -> list[Task] | None:
        rows = self._lines.get(repr(package))
        return None if rows is None else [task_from_json(row) for row in rows]

    def keep(self, package: Package, tasks: Sequence[Task]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            line = json.dumps({"package": repr(package), "tasks": [task_to_json(task) for task in tasks]})
            file.write(f"\n{line}\n")  # on a line of its own, also after one that was cut short

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
