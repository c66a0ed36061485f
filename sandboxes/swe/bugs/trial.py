"""Turns one bug into a task: tests always catch it, an issue describes it, its reverse fixes it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym import Task, ToolError

from ..judge import PatchVerdict, RepositoryTests
from ..patch import make_patch
from ..repository import Repository
from .difficulty import Reach, difficulty
from .issue import Seen, leaks, missing_text, others_text, report, shortest
from .mutations import Mutation
from .package import Package

MAX_FAILING_SHARE = 0.3
"""Limit on the share of a package's tests that a bug makes fail: a bug that more tests catch is too easy."""
CPU_FACTOR, CPU_EXTRA_S = 3, 2
"""The time limit with a bug: this factor times the tests' seconds without a bug, plus these seconds."""
OBSERVED = 4
"""Maximum number of tests that are searched for a call with a wrong outcome."""


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug: one mutation in each of one or more files of a package, by path."""

    places: Mapping[str, Mutation]

    @property
    def kind(self) -> str:
        """Return the kind of the bug's mutation; `several` for a bug in more than one file."""
        return next(iter(self.places.values())).kind if len(self.places) == 1 else "several"

    @property
    def functions(self) -> list[tuple[str, str]]:
        """Return path and name of the functions that contain the bug."""
        return [(path, mutation.function) for path, mutation in self.places.items()]

    @property
    def key(self) -> str:
        """Return an id of the bug, which is the same in every build."""
        parts = (f"{path}:{m.kind}:{m.start}:{m.end}:{m.text}" for path, m in sorted(self.places.items()))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Trials:
    """Tries bugs on one package.

    Attributes:
        sources: the package's breakable files, by path. `passing`: its tests that always pass without a bug.
        reach: the functions that these tests reach.
    """

    package: Package
    repository: Repository
    sources: Mapping[str, str]
    judge: RepositoryTests
    passing: Sequence[str]
    reach: Reach

    async def task(self, bug: Bug, caught: Sequence[Sequence[str]] = ()) -> Task | None:
        """Return the task of a bug; None if no test catches it, too many do, no issue can describe it, its tests do not
        always fail, or its reverse does not fix it.

        Args:
            caught: for a bug with several places, the tests that catch each of them alone.
        """
        if not all(mutation.parses(self.sources[path]) for path, mutation in bug.places.items()):
            return None
        good = {path: self.sources[path].encode() for path in bug.places}
        bad = {path: mutation.apply(self.sources[path]).encode() for path, mutation in bug.places.items()}
        try:
            patch, fix = make_patch(good, dict(bad)), make_patch(bad, dict(good))
        except ToolError:
            return None  # the fix would be too large to submit
        near = {test for function in bug.functions for test in self.reach.tests_of(*function)}.intersection(
            self.passing
        )
        verdict = await self.judge.judge(self.package.task(truth={}), patch, sorted(near)) if near else None
        if not (first := self._failing(verdict, near)):
            return None
        draft = self.package.task(patch=patch, truth={})
        verdict = await self.judge.judge(draft, "", self.passing)
        failing = self._failing(verdict, self.passing)
        if verdict is None or not set(first) <= set(failing) or set(failing) & near != set(first):
            return None  # the failing tests differ between runs
        if any(not set(tests) & set(failing) for tests in caught):
            return None  # one mutation hides the other
        prompt = await self._prompt(bug, draft, verdict.reasons, failing, caught)
        if prompt is None or leaks(prompt, fix):
            return None
        mended = await self.judge.judge(draft, fix, self.passing)
        if mended is None or not all(map(mended.passed, self.passing)):
            return None
        return self._finished(bug, patch, fix, prompt, failing)

    def _failing(self, verdict: PatchVerdict | None, tests: Sequence[str] | set[str]) -> list[str]:
        """Return the failed tests; an empty list if no test ran, or if more failed than a task may have."""
        if verdict is None or not verdict.outcomes:
            return []
        failing = sorted(test for test in tests if not verdict.passed(test))
        return failing if len(failing) <= max(1, MAX_FAILING_SHARE * len(self.passing)) else []

    async def _prompt(
        self,
        bug: Bug,
        draft: Task,
        reasons: Mapping[str, str],
        failing: Sequence[str],
        caught: Sequence[Sequence[str]],
    ) -> str | None:
        """Return the issue: one report for every place of the bug; None if no test describes one."""
        name = self.package.name
        if bug.kind == "removed":
            [(path, function)] = bug.functions
            title, text = missing_text(function, path)
            return f"{name}: {title}\n\n{text}"
        groups = [sorted(set(tests) & set(failing)) for tests in caught] or [list(failing)]
        chosen = [shortest(self.repository, group, OBSERVED) for group in groups]
        tests = sorted({test for group in chosen for test in group})
        if not all(chosen):
            return None
        good = Seen.by_test(await self.package.observe(self.judge, self.package.task(truth={}), "calls", tests))
        bad = Seen.by_test(await self.package.observe(self.judge, draft, "calls", tests))
        seen = {test: (good[test], bad[test]) for test in tests if test in good and test in bad}
        reports = [report(self.repository, group, reasons, seen) for group in chosen]
        texts = [text for text in reports if text is not None]
        if len(texts) < len(reports):
            return None
        if len(texts) == 1:
            title, text = texts[0]
            return f"{name}: {title}\n\n{text}{others_text(failing, chosen[0])}"
        titles = ", and ".join(title for title, _ in texts)
        return f"{name}: {titles}\n\n" + "\n\n".join(f"{n}. {text}" for n, (_, text) in enumerate(texts, 1))

    def _finished(self, bug: Bug, patch: str, fix: str, prompt: str, failing: Sequence[str]) -> Task:
        ranks = [self.reach.rank(path, function, failing) for path, function in bug.functions]
        estimate, measured = difficulty(ranks, fix)
        digest = hashlib.sha256(patch.encode()).hexdigest()[:8]
        return self.package.task(
            id=f"{self.package.pinned.replace('==', '-')}-{bug.kind}-{digest}",
            prompt=prompt,
            patch=patch,
            truth={
                "fail_to_pass": list(failing),
                "pass_to_pass": [test for test in self.passing if test not in set(failing)],
                "tests": list(self.package.test_files),
                "gold": fix,
                "measured": {**measured, "failing": len(failing)},
            },
            tags=(self.package.name, bug.kind),
            difficulty=estimate,
        )


def trials_of(package: Package, repository: Repository, judge: RepositoryTests, facts: Mapping[str, Any]) -> Trials:
    """Return the trials of a package, from the result of `facts_of`."""
    sources = package.breakable(repository)
    patient = impatient(judge, facts["round_s"])
    return Trials(package, repository, sources, patient, facts["passing"], Reach(*facts["reach"]))


async def facts_of(package: Package, judge: RepositoryTests) -> dict[str, Any]:
    """Return the facts about the unbroken package that its trials need, as plain data.

    Raises: TaskError if no test passes.
    """
    passing, round_s = await package.passing(judge)
    reach = await package.observe(judge, package.task(truth={}), "reached", package.tests)
    return {"passing": passing, "round_s": round_s, "reach": reach or [[], {}]}


def impatient(judge: RepositoryTests, round_s: float) -> RepositoryTests:
    """Return a judge that allows the tests little more processor time than a round of `passing` took, because many bugs
    are endless loops and would use up the judge's usual limit.
    """
    cpu_s = min(judge.cpu_s, math.ceil(CPU_FACTOR * round_s) + CPU_EXTRA_S)
    return RepositoryTests(cpu_s=cpu_s, timeout_s=judge.timeout_s, backend=judge.backend)
