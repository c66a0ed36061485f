"""A task from two releases of a package: the tests of the newer one, on the source of the older one."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff

from agentgym import Task, TaskError, ToolError

from ..judge import PatchVerdict, RepositoryTests
from ..patch import make_patch, paths_of
from ..repository import Repository
from ..sources import fetch
from .difficulty import Reach, changed_lines, difficulty
from .issue import Seen, leaks, report, shortest
from .package import Package, matches
from .recipe import Release

MAX_FAILING_SHARE = 0.5
"""Limit on the share of the newer tests that fail on the older sources: if more fail, something else is missing.
"""
MAX_LINES, MAX_NOTES, OBSERVED, REPORTED = 600, 3_000, 12, 3
NOTES = re.compile(r"(changes?|changelog|history|news|release[-_]?notes)(\.(rst|md|txt))?", re.I)
TAG = "release"


@dataclass(frozen=True, slots=True)
class _Releases:
    """Both releases of a package, with the same settings, and their files."""

    older: Package
    newer: Package
    before: Repository
    after: Repository

    @classmethod
    def fetch(cls, release: Release) -> _Releases:
        before = release.old.fetch()
        newer = replace(release.old, pinned=release.new, sha256=release.new_sha256)
        after = Repository.from_archive(fetch(newer.pinned, newer.sha256).read_bytes(), newer.pinned)
        newer = newer.located(after)
        return cls(replace(newer, pinned=release.old.pinned, sha256=release.old.sha256), newer, before, after)

    @property
    def where(self) -> str:
        return f"{self.older.pinned} to {self.newer.pinned}"

    def patch(self, *, tests: bool) -> str:
        """Return the newer release's changes to the tests, or to the sources.

        Raises: TaskError if a change is not text.
        """
        patterns = self.newer.test_files if tests else self.newer.sources
        paths = {
            path
            for path in {*self.before.files, *self.after.files}
            if path.endswith(".py") and matches(path, patterns) and (tests or not matches(path, self.newer.test_files))
        }
        try:
            return make_patch(self.before.files, {path: self.after.files.get(path) for path in paths})
        except ToolError as error:
            raise TaskError(f"{self.where}: {error}") from error


async def release_task(release: Release, judge: RepositoryTests) -> Task:
    """Return the task of two releases, after checking that some of the newer tests always fail on the older sources,
    and pass with the newer ones.

    The agent gets the older release as it was published. Raises: TaskError with the reason if they make no task.
    """
    both = await asyncio.to_thread(_Releases.fetch, release)
    gold, test_patch = both.patch(tests=False), both.patch(tests=True)
    if not gold or not test_patch:
        raise TaskError(f"{both.where}: the {'tests' if gold else 'sources'} of both releases are the same.")
    if (count := changed_lines(gold)) > MAX_LINES:
        raise TaskError(f"{both.where}: the sources differ in {count} lines, more than {MAX_LINES}.")
    draft = both.older.task(truth={"tests": list(both.newer.test_files), "test_patch": test_patch, "gold": gold})
    runs = [await judge.judge(draft, patch, both.newer.tests) for patch in (gold, gold, "", "")]
    passing = [test for test in (runs[0].outcomes if runs[0] else ()) if all(_passes(run, test) for run in runs[:2])]
    failing = sorted(test for test in passing if not any(_passes(run, test) for run in runs[2:]))
    keeping = sorted(test for test in passing if all(_passes(run, test) for run in runs[2:]))
    if not failing:
        raise TaskError(f"{both.where}: no test passes with the newer sources and fails with the older ones.")
    if len(failing) > MAX_FAILING_SHARE * len(passing):
        raise TaskError(
            f"{both.where}: {len(failing)} of {len(passing)} tests fail with the older sources, which is too many."
        )
    prompt = await _prompt(both, judge, test_patch, failing, runs[2])
    if leaks(prompt, gold):
        raise TaskError(f"{both.where}: its release notes contain a line of the fix.")
    reach = Reach(
        *(await both.newer.observe(judge, both.newer.task(truth={}), "reached", both.newer.tests) or ([], {}))
    )
    functions = [function for function in _changed_functions(both, gold) if reach.tests_of(*function) & set(failing)]
    estimate, measured = difficulty([reach.rank(path, name, failing) for path, name in functions], gold)
    return both.older.task(
        id=f"{both.older.pinned}-{TAG}-{both.newer.pinned.partition('==')[2]}".replace("==", "-"),
        prompt=prompt,
        truth={
            **draft.truth,
            "fail_to_pass": failing,
            "pass_to_pass": keeping,
            "measured": {**measured, "failing": len(failing)},
        },
        tags=(both.older.name, TAG),
        difficulty=estimate,
    )


def _passes(verdict: PatchVerdict | None, test: str) -> bool:
    return verdict is not None and verdict.passed(test)


async def _prompt(
    both: _Releases, judge: RepositoryTests, test_patch: str, failing: Sequence[str], verdict: PatchVerdict | None
) -> str:
    """Return the prompt: the newer release's notes, and calls whose outcome differs between the releases."""
    tests = shortest(both.after, failing, OBSERVED)
    with_tests = both.older.task(patch=test_patch, truth={})
    good = Seen.by_test(await both.newer.observe(judge, both.newer.task(truth={}), "calls", tests))
    bad = Seen.by_test(await both.older.observe(judge, with_tests, "calls", tests))
    seen = {test: (good[test], bad[test]) for test in tests if test in good and test in bad}
    reasons = verdict.reasons if verdict is not None else {}
    reports: dict[str, str] = {}
    for test in tests:
        if (text := report(both.after, [test], reasons, seen)) is not None:
            reports.setdefault(*text)
    notes = _notes(both)
    name, version = both.newer.name, both.newer.pinned.partition("==")[2]
    parts = [f"{name}: what version {version} changes is missing"]
    if notes:
        parts += ["Its notes say:", "\n".join(f"> {line}".rstrip() for line in notes.splitlines())]
    parts += [f"{number}. {title}. {text}" for number, (title, text) in enumerate(list(reports.items())[:REPORTED], 1)]
    if len(parts) == 1:
        raise TaskError(f"{both.where}: it has no release notes, and no test shows what was run.")
    return "\n\n".join(parts)


def _notes(both: _Releases) -> str:
    """Return the lines that the newer release adds to the release notes."""
    for path in sorted(both.after.files, key=lambda path: (path.count("/"), path)):
        if NOTES.fullmatch(path.rpartition("/")[2]):
            old, new = (side.files.get(path, b"").decode("utf-8", "replace") for side in (both.before, both.after))
            lines = unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
            added = "\n".join(line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")).strip()
            if added:
                return added[:MAX_NOTES]
    return ""


def _changed_functions(both: _Releases, gold: str) -> list[tuple[str, str]]:
    """Return path and dotted name of the functions that the newer release changes or adds."""
    functions: list[tuple[str, str]] = []
    for path in paths_of(gold):
        before, after = (_functions(files.files.get(path, b"")) for files in (both.before, both.after))
        functions += [(path, name) for name, text in after.items() if before.get(name) != text]
    return functions


def _functions(content: bytes) -> dict[str, str]:
    """Return the functions of a file and their text, by dotted name."""
    texts: dict[str, str] = {}

    def visit(node: ast.AST, inside: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            name = inside
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = (*inside, child.name)
                if not isinstance(child, ast.ClassDef):
                    texts[".".join(name)] = ast.unparse(child)
            visit(child, name)

    try:
        visit(ast.parse(content), ())
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return texts
