"""`repository_tests`: does the patch make the failing tests pass, and break none?

The patch is applied in a fresh sandbox, to the files the agent began with; what it says of tests, of their
configuration and of the import system is left out, and the judge's own tests are put over it.

Source: FAIL_TO_PASS and PASS_TO_PASS as in SWE-bench, Jimenez et al. 2024, arXiv:2310.06770; completion and
modification told apart as G-RA does.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from agentgym import JudgeError, Reward, SandboxError, SandboxSpec, Task, TaskError, Trajectory, shared_backend
from agentgym.reward import SUCCESS, Components
from agentgym.sandbox import Backend, Sandbox

from .environment import REPOSITORY, SUBMITTED, SweEdit
from .parameters import RepositoryParameters, repository_of
from .patch import paths_of
from .repository import ROOT, apply_patch, prepared

MAX_REPORT = 2**22
PROTECTED = (
    *("*conftest.py", "*sitecustomize.py", "*usercustomize.py", "*.pth"),
    *("pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", ".git/*"),
)
"""Files that decide how tests are found and run: a patch has no say in them."""


@dataclass(frozen=True, slots=True)
class PatchVerdict:
    """What became of the tests: outcomes and failure texts by pytest id. None where the patch does not fit."""

    outcomes: Mapping[str, str]
    reasons: Mapping[str, str]

    def passed(self, test: str) -> bool:
        """Whether a test passed. An id whose bracket never closes was cut by whoever recorded it: it stands for all
        tests that begin so."""
        if "[" not in test or test.endswith("]"):
            return self.outcomes.get(test) == "passed"
        alike = [outcome for name, outcome in self.outcomes.items() if name.startswith(test)]
        return bool(alike) and set(alike) == {"passed"}


class RepositoryTests(Reward):
    """Outcome components `success` (every test of `fail_to_pass` and `pass_to_pass` passed), `mended` and `unbroken`
    (the shares of each that did), `completed` (it was submitted) and `modified` (the patch changes what counts).

    `truth`: `fail_to_pass` and `pass_to_pass`, pytest ids; `tests`, path patterns of test files, which a patch has no
    say in; `test_patch`, a diff, and `files`, by path (both optional), put over it. Only `success` counts.

    Args:
        cpu_s: processor time for all tests together. `timeout_s`: wall time.
        backend: makes the judge's sandboxes; a name or a Backend.
    """

    weights: Mapping[str, float] = {"mended": 0.0, "unbroken": 0.0, "completed": 0.0, "modified": 0.0}

    def __init__(self, *, cpu_s: int = 120, timeout_s: float = 300.0, backend: str | Backend = "namespaces") -> None:
        self.cpu_s, self.timeout_s, self.backend = cpu_s, timeout_s, backend

    async def outcome(self, episode: Trajectory) -> Components:
        """Raises: JudgeError when the truth is unusable or no sandbox would run the tests."""
        truth = episode.task.truth
        if not isinstance(truth, dict) or not truth.get("fail_to_pass"):
            raise JudgeError(
                f"{episode.task.id} has no truth['fail_to_pass'], so repository_tests has nothing to judge."
            )
        to_mend, to_keep = list(truth["fail_to_pass"]), list(truth.get("pass_to_pass", ()))
        patch = submission(episode)
        components = Components({SUCCESS: 0.0, "completed": float(patch is not None), "modified": 0.0, "mended": 0.0})
        if not patch:
            return components
        verdict = await self.judge(episode.task, patch, [*to_mend, *to_keep])
        if verdict is None:
            return components
        patterns = _left_out(truth)
        components["modified"] = float(any(not _matches(path, patterns) for path in paths_of(patch)))
        components["mended"] = sum(map(verdict.passed, to_mend)) / len(to_mend)
        if to_keep:
            components["unbroken"] = sum(map(verdict.passed, to_keep)) / len(to_keep)
        components[SUCCESS] = float(all(map(verdict.passed, [*to_mend, *to_keep])))
        return components

    async def judge(self, task: Task, patch: str, tests: Sequence[str]) -> PatchVerdict | None:
        """Outcomes of tests on the task's repository with a patch; None if it does not fit.

        Nothing passes where the patch breaks its sandbox twice and the tests run without it: that is its failure, not
        ours. Raises: JudgeError where they do not.
        """
        try:
            return await self._judge(task, patch, tests)
        except SandboxError:  # once more in another sandbox: it may have had a bad moment
            try:
                return await self._judge(task, patch, tests)
            except SandboxError:
                try:
                    await self._judge(task, "", tests)
                except SandboxError as error:
                    raise JudgeError(f"No sandbox would run the tests of {task.id}: {error}") from error
        return PatchVerdict({}, {})

    async def _judge(self, task: Task, patch: str, tests: Sequence[str]) -> PatchVerdict | None:
        truth: Mapping[str, Any] = task.truth or {}
        parameters = RepositoryParameters.of(task)
        spec: SandboxSpec = parameters.spec(SweEdit.sandbox)
        backend = shared_backend(self.backend)
        repository = await repository_of(parameters, task.id)
        base = await prepared(backend, spec, repository, parameters.patch)
        sandbox = await backend.create(spec, snapshot=base)
        try:
            if patch:
                try:
                    await apply_patch(sandbox, patch, exclude=_left_out(truth))
                except TaskError:
                    return None
            if truth.get("test_patch"):
                await apply_patch(sandbox, truth["test_patch"])
            for path, content in dict(truth.get("files", {})).items():
                await sandbox.write(f"{ROOT}/{path}", content.encode())
            return await run_tests(sandbox, tests, parameters.path, cpu_s=self.cpu_s, timeout_s=self.timeout_s)
        finally:
            await sandbox.close()


async def run_tests(
    sandbox: Sandbox, tests: Sequence[str], path: Sequence[str], *, cpu_s: int = 120, timeout_s: float = 300.0
) -> PatchVerdict:
    """Run the files of some tests in the sandbox's repository. Raises: SandboxError.

    One more test, which can only fail, is run behind them: code that has every test pass is found out by it.
    """
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    nonce, name = secrets.token_hex(16), secrets.token_hex(4)
    canary = f"test_{name}.py"
    await sandbox.write(f"{ROOT}/{canary}", f"def test_{name}():\n    assert {name!r} == {name[::-1]!r}\n".encode())
    arguments = (nonce, [*files, canary], list(path), cpu_s)
    result = await REPOSITORY.run(sandbox, "judge_tests", *arguments, timeout_s=timeout_s, max_output_bytes=MAX_REPORT)
    for line in result.stdout.decode("utf-8", "replace").splitlines():
        mark, _, text = line.partition(" ")
        if mark == nonce:
            outcomes, reasons = json.loads(text)
            canary_outcomes = [outcomes.pop(test) for test in list(outcomes) if test.endswith(f"::test_{name}")]
            return PatchVerdict(outcomes, reasons) if canary_outcomes == ["failed"] else PatchVerdict({}, {})
    return PatchVerdict({}, {})  # ended early, out of time or memory: nothing passed


def submission(episode: Trajectory) -> str | None:
    """The patch that was handed in, None if none was."""
    final = (str(result.content) for turn in episode.turns for result in turn.results if result.final and result.ok)
    return next((text.removeprefix(SUBMITTED) for text in final if text.startswith(SUBMITTED)), None)


def _left_out(truth: Mapping[str, Any]) -> tuple[str, ...]:
    return (*PROTECTED, *truth.get("tests", ()))


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
