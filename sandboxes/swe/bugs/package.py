"""A package to break: its files, the breakable ones among them, and the results of its tests without a bug."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from agentgym import GuestModule, Split, Task, TaskError, load, shared_backend

from ..environment import SweEdit
from ..judge import PatchVerdict, RepositoryTests
from ..parameters import RepositoryParameters, opened
from ..repository import Repository
from ..sources import fetch

ENVIRONMENT = "agentgym/swe-v1"
TEST_FILES = ("test/*", "tests/*", "*/test/*", "*/tests/*", "test_*.py", "*/test_*.py", "*_test.py", "conftest.py")
NO_SOURCES = {"docs", "doc", "examples", "example", "benchmarks", "benchmark", "tools", "scripts", "build"}
OBSERVER = GuestModule(__package__.rpartition(".")[0], "guest_repository", "guest_calls")
MAX_OBSERVED, OBSERVE_S = 2**26, 300.0


@dataclass(frozen=True, slots=True)
class Package:
    """One package of a recipe.

    Attributes:
        pinned: name==version. `sha256`: hash of its source distribution, empty to accept any. `split`: the split of all
            its tasks.
        sources: patterns of the files that may be broken. `tests`: files or folders of the judging tests.
        test_files: patterns of all test files; a patch's changes to them are ignored. `source`: folders on the import
            path. Omitted values are searched for in their usual places.
        requires: installed modules that its tests import. `packages`: other packages, as name==version, whose source
            distributions are put beside this one.
    """

    pinned: str
    sources: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    test_files: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    split: Split = "train"
    sha256: str = ""

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str) -> Package:
        """Read the table of a package. Raises: TaskError, beginning with `where`, naming key and value."""
        known = cls.__slots__
        if unknown := set(data) - set(known):
            raise TaskError(f"{where}: unknown keys {sorted(unknown)}. The keys of a package are: {', '.join(known)}.")
        if not data.get("pinned"):
            raise TaskError(f"{where}: the key 'pinned' is missing or empty.")
        if data.get("split", "train") not in ("train", "validation", "held_out"):
            raise TaskError(f"{where}: split = {data['split']!r} is not valid. Choose train, validation or held_out.")
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        return cls(**values)

    @property
    def name(self) -> str:
        """Return the package's name without the version."""
        return self.pinned.partition("==")[0]

    def fetch(self) -> Repository:
        """Return the package's files and those of `packages`, from the cache or package index. Raises: TaskError."""
        for other in self.packages:
            fetch(other)
        return Repository.from_archive(fetch(self.pinned, self.sha256).read_bytes(), self.pinned)

    def located(self, repository: Repository) -> Package:
        """Return the package with the parts of its layout that the recipe omits.

        Raises: TaskError if a part is not found.
        """
        patterns = self.test_files or TEST_FILES
        paths = [path for path in repository.files if path.endswith(".py")]
        own = [path for path in paths if not matches(path, patterns)]
        root = "src/" if any(path.startswith("src/") for path in own) else ""
        tops = [path.removeprefix(root) for path in own if path.startswith(root)]
        folders = {path.partition("/")[0] for path in tops if path.endswith("/__init__.py") and path.count("/") == 1}
        modules = [path for path in tops if "/" not in path and path not in ("setup.py", "ez_setup.py")]
        sources = [f"{root}{name}/*.py" for name in sorted(folders - NO_SOURCES)] or [root + name for name in modules]
        tests = [path for path in paths if matches(path, patterns) and _is_test(path)]
        tests = [path for path in tests if path.partition("/")[0] not in NO_SOURCES]
        test_folders = {str(PurePosixPath(path).parent) for path in tests}
        if len(test_folders) > 1:
            test_folders -= {source.removesuffix("/*.py") for source in sources}
        within = sorted(
            folder for folder in test_folders if not any(folder.startswith(f"{other}/") for other in test_folders)
        )
        complete = replace(
            self,
            sources=self.sources or tuple(sources),
            tests=self.tests or (tuple(sorted(tests)) if "." in within else tuple(within)),
            test_files=patterns,
            source=self.source or (root or ".",),
        )
        if not complete.sources or not complete.tests:
            missing = "tests" if complete.sources else "sources"
            raise TaskError(
                f"{self.pinned}: there are no {missing} in their usual places. Name them in the recipe ({missing})."
            )
        return complete

    def breakable(self, repository: Repository) -> dict[str, str]:
        """Return sources by path. Raises: TaskError if the patterns match none."""
        sources = {
            path: content.decode("utf-8")
            for path, content in sorted(repository.files.items())
            if matches(path, self.sources) and not matches(path, self.test_files)
        }
        if not sources:
            raise TaskError(f"{self.pinned}: sources = {list(self.sources)} matches none of its files.")
        return sources

    def task(self, *, id: str = "", prompt: str = "-", patch: str = "", **fields: Any) -> Task:  # noqa: A002
        """Return a task on this package; `patch` breaks it."""
        parameters: dict[str, Any] = {"repository": self.pinned, "source": list(self.source)}
        for name in ("requires", "packages"):
            if getattr(self, name):
                parameters[name] = list(getattr(self, name))
        if patch:
            parameters["patch"] = patch
        return Task(id or self.pinned, ENVIRONMENT, prompt, parameters=parameters, split=self.split, **fields)

    async def passing(self, judge: RepositoryTests, times: int = 5) -> tuple[list[str], float]:
        """Return ids of tests that pass every time, each time in a new interpreter, and the fastest round's seconds.

        Raises: TaskError if none does.
        """
        rounds: list[Mapping[str, str]] = []
        reasons: list[str] = []
        quickest_s = math.inf
        for _ in range(times):
            began = time.monotonic()
            verdict = await _elsewhere(judge, self.task(truth={}), self.tests)
            assert verdict is not None
            quickest_s = min(quickest_s, time.monotonic() - began)
            reasons = list(verdict.reasons.values())
            rounds.append(verdict.outcomes)
            if not verdict.outcomes:
                break
        if not (passing_tests := steady(rounds)):
            reason = reasons[0][-500:] if reasons else "None was found, or they took more time or memory than there is."
            raise TaskError(f"{self.pinned}: none of its tests passes on this machine. {reason}")
        return passing_tests, quickest_s

    async def observe(self, judge: RepositoryTests, task: Task, function: str, tests: Sequence[str]) -> Any:
        """Run tests on a task of this package with a function of `guest_calls.py`. Returns: its observations; None
        without any, for example because the tests end the process.
        """
        assert SweEdit.sandbox is not None
        sandbox = await opened(shared_backend(judge.backend), SweEdit.sandbox, RepositoryParameters.of(task), task.id)
        try:
            result = await OBSERVER.run(
                sandbox, function, list(tests), list(self.source), timeout_s=OBSERVE_S, max_output_bytes=MAX_OBSERVED
            )
        finally:
            await sandbox.close()
        try:
            return json.loads(result.stdout)
        except ValueError:
            return None


def steady(rounds: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the sorted ids of the tests that passed in every round.

    A function is left out if its tests or their order differed between rounds, because then an id can mean another test
    in another interpreter, even if it has not done so yet.

    Args:
        rounds: each round's outcomes by pytest id, in the order in which the tests ran.
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
    """Return the ids of every test function, in their order."""
    ids: dict[str, list[str]] = {}
    for test in tests:
        ids.setdefault(test.partition("[")[0], []).append(test)
    return ids


def _is_test(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.startswith("test_") or name.endswith("_test.py")


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Return whether a path matches one of the patterns."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


async def _elsewhere(judge: RepositoryTests, task: Task, tests: Sequence[str]) -> PatchVerdict | None:
    """Return a judge's verdict in a new interpreter. Test ids that depend on the order of a set differ there, because
    the hash of None is an address.
    """
    if not isinstance(judge.backend, str):
        return await judge.judge(task, "", tests)
    backend = load("backends", judge.backend)()
    try:
        return await RepositoryTests(cpu_s=judge.cpu_s, timeout_s=judge.timeout_s, backend=backend).judge(
            task, "", tests
        )
    finally:
        await backend.close()
