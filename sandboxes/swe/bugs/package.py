"""A package to be broken: its files, which of them may be, and which of its tests pass time and again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from agentgym import Split, Task, TaskError, load

from ..judge import PatchVerdict, RepositoryTests
from ..repository import Repository
from ..sources import fetch

ENVIRONMENT = "agentgym/swe-v1"


@dataclass(frozen=True, slots=True)
class Package:
    """One package of a recipe.

    Attributes:
        pinned: name==version. `sha256`: of its source distribution, empty for any. `split`: of all its tasks.
        sources: patterns of the files that may be broken. `tests`: files or folders of tests that judge.
        test_files: patterns of all test files, in which a patch has no say.
        source: folders on the import path. `requires`: installed modules that its tests import.
    """

    pinned: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    test_files: tuple[str, ...]
    source: tuple[str, ...] = (".",)
    requires: tuple[str, ...] = ()
    split: Split = "train"
    sha256: str = ""

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str) -> Package:
        """Raises: TaskError, beginning with `where`, naming key and value."""
        known = cls.__slots__
        if unknown := set(data) - set(known):
            raise TaskError(f"{where}: unknown keys {sorted(unknown)}. A package has {', '.join(known)}.")
        for key in ("pinned", "sources", "tests", "test_files"):
            if not data.get(key):
                raise TaskError(f"{where}: the key {key!r} is missing or empty.")
        if data.get("split", "train") not in ("train", "validation", "held_out"):
            raise TaskError(f"{where}: split = {data['split']!r} is none of train, validation, held_out.")
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        return cls(**values)

    def fetch(self) -> Repository:
        """Its files, from the cache or the package index. Raises: TaskError."""
        return Repository.from_archive(fetch(self.pinned, self.sha256).read_bytes(), self.pinned)

    def breakable(self, repository: Repository) -> dict[str, str]:
        """Sources by path. Raises: TaskError if the patterns match none."""
        sources = {
            path: content.decode("utf-8")
            for path, content in sorted(repository.files.items())
            if any(fnmatchcase(path, pattern) for pattern in self.sources)
            and not any(fnmatchcase(path, pattern) for pattern in self.test_files)
        }
        if not sources:
            raise TaskError(f"{self.pinned}: sources = {list(self.sources)} match no file of it.")
        return sources

    def task(self, *, id: str = "", prompt: str = "-", patch: str = "", **fields: Any) -> Task:  # noqa: A002
        """A task on this package; `patch` is what breaks it."""
        parameters: dict[str, Any] = {"repository": self.pinned, "source": list(self.source)}
        if self.requires:
            parameters["requires"] = list(self.requires)
        if patch:
            parameters["patch"] = patch
        return Task(id or self.pinned, ENVIRONMENT, prompt, parameters=parameters, split=self.split, **fields)

    async def passing(self, judge: RepositoryTests, times: int = 5) -> list[str]:
        """Ids of the tests that pass every time, each time in another interpreter. Raises: TaskError if none does."""
        rounds: list[Mapping[str, str]] = []
        reasons: list[str] = []
        for _ in range(times):
            verdict = await _elsewhere(judge, self.task(truth={}), self.tests)
            assert verdict is not None
            reasons = list(verdict.reasons.values())
            rounds.append(verdict.outcomes)
        if not (passing_tests := steady(rounds)):
            reason = reasons[0][-500:] if reasons else "None was found."
            raise TaskError(f"{self.pinned}: none of its tests passes here. {reason}")
        return passing_tests


def steady(rounds: Sequence[Mapping[str, str]]) -> list[str]:
    """Ids of the tests that passed in every round, sorted. None of a function whose tests were not always the same in
    the same order: where one id stands for another test in another interpreter, those that stayed may move next time.

    Args:
        rounds: outcomes by pytest id, in the order in which they ran.
    """
    first, *others = map(_by_function, rounds)
    return sorted(
        test
        for function, tests in first.items()
        if all(other.get(function) == tests for other in others)
        for test in tests
        if all(outcomes[test] == "passed" for outcomes in rounds)
    )


def _by_function(tests: Iterable[str]) -> dict[str, list[str]]:
    """The ids of every test function, in their order."""
    ids: dict[str, list[str]] = {}
    for test in tests:
        ids.setdefault(test.partition("[")[0], []).append(test)
    return ids


async def _elsewhere(judge: RepositoryTests, task: Task, tests: Sequence[str]) -> PatchVerdict | None:
    """What a judge says in an interpreter of its own. Where the order of a set names a test, it is another there: the
    hash of None is an address."""
    if not isinstance(judge.backend, str):
        return await judge.judge(task, "", tests)
    backend = load("backends", judge.backend)()
    try:
        return await RepositoryTests(cpu_s=judge.cpu_s, timeout_s=judge.timeout_s, backend=backend).judge(
            task, "", tests
        )
    finally:
        await backend.close()
