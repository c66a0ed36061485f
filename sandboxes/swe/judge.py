"""`repository_tests`: whether a patch makes the failing tests pass, and breaks none.

The patch is applied in a fresh sandbox, to the files the agent began with. Its changes to tests, to their configuration
and to the import system are ignored, and the judge's own tests overwrite the files. Before a patch earns reward, its
tests are run once more in another sandbox as controls, which must fail (`controls.py`).

Source: FAIL_TO_PASS and PASS_TO_PASS as in SWE-bench, Jimenez et al. 2024, arXiv:2310.06770; completion and
modification are distinguished as in G-RA.
"""

from __future__ import annotations

import json
import random
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from agentgym import (
    GuestModule,
    JudgeError,
    Reward,
    SandboxError,
    Task,
    TaskError,
    Trajectory,
    shared_backend,
)
from agentgym.reward import SUCCESS, Components, judge_submission
from agentgym.sandbox import Backend, Sandbox

from .commands import files_of_tests, judged_report, write_controls
from .environment import SUBMITTED, SweEdit
from .guest_judge import AWAITED, UNREADABLE
from .parameters import RepositoryParameters, opened
from .patch import paths_of
from .pytest_controls import python_sources, write_canaries, write_pytest_controls
from .repository import ROOT, apply_patch

MAX_REPORT = 2**24
ATTEMPTS = 2
"""How often controls without an outcome are run, each time with different changes."""
PROTECTED = (
    *("*conftest.py", "*sitecustomize.py", "*usercustomize.py", "*.pth", "*.dist-info*", "*.egg-info*", "*EGG-INFO/*"),
    *("*pytest.ini", "*pytest.toml", "*tox.ini", "setup.cfg", "pyproject.toml", ".git/*"),
)
"""Files that decide how tests are found and run: a patch's changes to them are ignored."""
NETWORK = re.compile(
    r"gaierror|getaddrinfo|Name or service not known|Temporary failure in name resolution|Network is unreachable"
)
"""Error messages of a test that needs a network."""
JUDGE = GuestModule(__package__, "guest_repository", "guest_judge")


@dataclass(frozen=True, slots=True)
class PatchVerdict:
    """Outcomes and failure texts of the tests by pytest id; the text for "" says why there are no outcomes.

    `changed`: names of test runner functions that the repository replaced while its tests ran. `forged`: a test that
    cannot pass has passed, so no outcome is given. `controls`: the tests that ran as controls. `timed_out`: the run
    exceeded its wall-clock limit, which a busy host can cause.
    """

    outcomes: Mapping[str, str]
    reasons: Mapping[str, str]
    changed: frozenset[str] = frozenset()
    forged: bool = False
    controls: frozenset[str] = frozenset()
    timed_out: bool = False

    def outcomes_of(self, test: str) -> set[str]:
        """Return the outcomes of a test; an empty set if it did not run.

        An id whose bracket never closes was cut when it was recorded: it means all tests that begin with it.
        """
        if "[" not in test or test.endswith("]"):
            return {self.outcomes[test]} if test in self.outcomes else set()
        return {outcome for name, outcome in self.outcomes.items() if name.startswith(test)}

    def passed(self, test: str, *, xfail: bool = False) -> bool:
        """Return whether a test passed or, if `xfail` is true, failed as its mark expects."""
        outcomes = self.outcomes_of(test)
        return bool(outcomes) and outcomes <= ({"passed", "xfailed"} if xfail else {"passed"})

    def failure_of(self, test: str) -> str:
        """Return a few words about why a test did not pass."""
        text = self.reasons.get(test) or self.reasons.get(test.partition("::")[0]) or ""
        error = next((line[1:].strip() for line in text.splitlines() if line.startswith("E ")), "")[:200]
        network = " It needs a network, which a sandbox does not have." if NETWORK.search(text) else ""
        return f"({self.outcomes.get(test, 'not there')}) {error}".rstrip() + network


NOTHING = PatchVerdict({}, {})


class RepositoryTests(Reward):
    """Outcome components `success` (every test of `fail_to_pass` and `pass_to_pass` passed), `mended` and `unbroken`
    (the shares of each that did), `completed` (a patch was submitted) and `modified` (it changes files that count).
    If a patch makes a test pass that cannot pass, `forged` is 1, and it earns nothing. If its controls do not finish in
    either of two runs, `uncontrolled` is 1, and it earns nothing either, so that ending the run to avoid the check is
    not rewarded.

    `truth`: `fail_to_pass` and `pass_to_pass`, pytest ids; `tests`, path patterns of test files, which a patch cannot
    change; `test_patch`, a diff, and `files`, by path (both optional), which overwrite the repository's files; `gold`
    (optional), a patch that fixes the bug: what the gold patch does too never counts as forged. Only `success` counts.
    A test of `pass_to_pass` that fails as its mark expects (xfail) has passed, as in SWE-bench.

    Args:
        cpu_s: processor time for all tests together. `timeout_s`: wall time.
        controls: n, how often the tests of a successful patch are run as controls. A patch that forges at random is
            rewarded with a probability of at most n^n / (n+1)^(n+1): 0.25 for 1, 0.15 for 2. Every second time
            only one test is a control, to catch patches that recognise the check by another test.
        backend: creates the judge's sandboxes; a name or a Backend.
    Raises: ValueError for a negative number of controls.
    """

    weights: Mapping[str, float] = dict.fromkeys(
        ("mended", "unbroken", "completed", "modified", "forged", "uncontrolled"), 0.0
    )

    def __init__(
        self, *, cpu_s: int = 120, timeout_s: float = 300.0, controls: int = 1, backend: str | Backend = "namespaces"
    ) -> None:
        if controls < 0:
            raise ValueError(f"controls = {controls} is not valid: repository_tests needs at least 0.")
        self.cpu_s, self.timeout_s, self.controls, self.backend = cpu_s, timeout_s, controls, backend

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the truth is unusable or no sandbox runs the tests."""
        truth = episode.task.truth
        if not isinstance(truth, dict) or not truth.get("fail_to_pass"):
            raise JudgeError(f"{episode.task.id} has no truth['fail_to_pass'], the tests that repository_tests runs.")
        patch = submission(episode)
        components = await self.score(episode.task, patch or "")
        return Components({**components, "completed": float(patch is not None)})

    async def score(self, task: Task, patch: str) -> Components:
        """Return the components of a patch on a task; an empty patch earns nothing. Raises: JudgeError."""
        truth: Mapping[str, Any] = task.truth or {}
        to_mend, to_keep = list(truth["fail_to_pass"]), list(truth.get("pass_to_pass", ()))
        components = Components({SUCCESS: 0.0, "completed": 1.0, "modified": 0.0, "mended": 0.0})
        verdict = await self.judge(task, patch, [*to_mend, *to_keep]) if patch else None
        if verdict is None:
            return components
        patterns = _left_out(truth, RepositoryParameters.of(task))
        components["modified"] = float(any(not _matches(path, patterns) for path in paths_of(patch)))
        mended = [verdict.passed(test) for test in to_mend]
        unbroken = [verdict.passed(test, xfail=True) for test in to_keep]
        fault = "forged" if verdict.forged else await self.fault_of(task, patch, verdict) if any(mended) else ""
        if fault:
            return Components({**components, fault: 1.0})
        components["mended"] = sum(mended) / len(to_mend)
        if to_keep:
            components["unbroken"] = sum(unbroken) / len(to_keep)
        components[SUCCESS] = float(all(mended) and all(unbroken))
        return components

    async def task_fault(self, task: Task) -> str:
        """Return why a task is unusable, or an empty text.

        At first some test to fix must fail, and with the gold patch all tests must pass.

        Raises: JudgeError if no sandbox runs the tests, or they do not finish within `timeout_s`.
        """
        truth: Mapping[str, Any] = task.truth or {}
        if not truth.get("fail_to_pass") or not truth.get("gold"):
            return "its truth has no fail_to_pass, or no gold patch"
        to_mend, to_keep = list(truth["fail_to_pass"]), list(truth.get("pass_to_pass", ()))
        try:
            before = await self.judge(task, "", [*to_mend, *to_keep])
            after = await self.judge(task, truth["gold"], [*to_mend, *to_keep])
        except TaskError as error:
            return str(error)
        if before is None or after is None:
            return "the gold patch does not fit the repository"
        if all(map(before.passed, to_mend)):
            return f"{len(to_mend)} of {len(to_mend)} tests to be mended pass as it is: {to_mend[0]}"
        if not after.outcomes:
            fault = f"with the gold patch no test has an outcome: {after.reasons.get('', 'no reason is known')}"
            if after.timed_out:
                raise JudgeError(fault)  # a later run on this host may be faster
            return fault
        broken = [test for test in to_mend if not after.passed(test)]
        broken += [test for test in to_keep if not after.passed(test, xfail=True)]
        if broken:
            many = f"{len(broken)} of {len(to_mend) + len(to_keep)} tests do not pass with the gold patch"
            return f"{many}: {broken[0]} {after.failure_of(broken[0])}"
        if (await self.score(task, truth["gold"]))[SUCCESS] != 1:
            return "the gold patch is not paid, although its tests pass"
        return ""

    async def judge(self, task: Task, patch: str, tests: Sequence[str]) -> PatchVerdict | None:
        """Return the outcomes of tests on the task's repository with a patch; None if the patch does not apply.

        If the sandbox breaks twice with the patch, but not without it, no test passes, because the patch is to blame.
        Raises: JudgeError if the tests do not run without it either.
        """
        return await self._verdict(task, patch, _Run(tuple(tests)))

    async def fault_of(self, task: Task, patch: str, verdict: PatchVerdict) -> str:
        """Return `forged` if a patch makes tests pass that cannot pass, or replaces functions of the test runner, while
        neither the unpatched repository nor the gold patch does. Return `uncontrolled` if the patch's controls have
        no outcome in two runs, while those of the gold patch have one. Else return an empty text.

        Only controls of tests that passed count: a patch that is merely wrong may return the control's expected value.
        Raises: JudgeError.
        """
        truth: Mapping[str, Any] = task.truth or {}
        honest = [truth["gold"]] if truth.get("gold") else []
        tests = (*truth["fail_to_pass"], *truth.get("pass_to_pass", ()))
        changed = set(verdict.changed)
        for other in ["", *honest] if changed else ():
            same = await self._verdict(task, other, _Run(tests, thorough=True))
            changed -= same.changed if same else set()
        if changed:
            return "forged"
        for number in range(self.controls):
            faults: list[str] = []
            while len(faults) < ATTEMPTS and (not faults or faults[-1] == "uncontrolled"):
                faults.append(await self._control(task, patch, verdict, honest, single=number % 2 == 1))
            if faults[-1]:
                return faults[-1]
        return ""

    async def _control(
        self, task: Task, patch: str, verdict: PatchVerdict, honest: Sequence[str], *, single: bool
    ) -> str:
        """Return the verdict of one run of a patch's controls, as `fault_of` does. Controls that have the
        same outcome under one of the `honest` patches do not count. `single`: make one control only.
        """
        truth: Mapping[str, Any] = task.truth or {}
        tests = (*truth["fail_to_pass"], *truth.get("pass_to_pass", ()))
        run = _Run(tests, control_seed=secrets.randbits(64), single=single)
        control = await self._verdict(task, patch, run)
        if control is None:
            return "uncontrolled"
        if control.forged:
            return "forged"
        watched = {test for test in control.controls if verdict.passed(test)}
        passing = {test for test in watched if control.passed(test)}
        silent = {test for test in watched if not control.outcomes_of(test)}
        for other in honest if passing or silent else ():
            same = await self._verdict(task, other, run) or NOTHING
            passing -= {test for test in passing if same.passed(test)}
            silent -= {test for test in silent if not same.outcomes_of(test)}
        return "forged" if passing else "uncontrolled" if silent else ""

    async def _verdict(self, task: Task, patch: str, run: _Run) -> PatchVerdict | None:
        unpatched: PatchVerdict | None = None

        async def control() -> None:
            nonlocal unpatched
            unpatched = await self._judge(task, "", run)

        async def attempt() -> PatchVerdict | None:
            return await self._judge(task, patch, run)

        failed: PatchVerdict | None = NOTHING
        verdict = await judge_submission(attempt, control, failed)
        if verdict is failed and unpatched is not None:
            return replace(NOTHING, controls=unpatched.controls)
        return verdict

    async def _judge(self, task: Task, patch: str, run: _Run) -> PatchVerdict | None:
        parameters = RepositoryParameters.of(task)
        assert SweEdit.sandbox is not None
        sandbox = await opened(shared_backend(self.backend), SweEdit.sandbox, parameters, task.id)
        try:
            if patch:
                try:
                    await apply_patch(sandbox, patch, exclude=_left_out(task.truth or {}, parameters))
                except TaskError:
                    return None
            try:
                return await self._judge_files(sandbox, task.truth or {}, run, parameters)
            except (TaskError, OSError) as error:
                if not patch:
                    raise
                raise SandboxError(f"The tests cannot be copied over the patched repository: {error}") from error
        finally:
            await sandbox.close()

    async def _judge_files(
        self, sandbox: Sandbox, truth: Mapping[str, Any], run: _Run, parameters: RepositoryParameters
    ) -> PatchVerdict:
        seen: dict[str, str] = {}
        if run.control_seed is not None:
            seen = await _sources_of_tests(sandbox, truth, parameters)
        if truth.get("test_patch"):
            await apply_patch(sandbox, truth["test_patch"])
        for path, content in dict(truth.get("files", {})).items():
            await sandbox.write(f"{ROOT}/{path}", content.encode())
        controls: dict[str, str] = {}
        if run.control_seed is not None:
            if parameters.test_runner is None:
                controls = await write_pytest_controls(sandbox, truth, run.control_seed, seen, single=run.single)
            else:
                controls = await write_controls(sandbox, truth, run.control_seed, seen)
            if not controls:
                return NOTHING  # no controls can be made of these tests
        if parameters.test_runner is None:
            verdict = await self._run(sandbox, run, parameters, controls)
        else:
            report, forged = await judged_report(
                sandbox, parameters, truth.get("tests", ()), cpu_s=self.cpu_s, timeout_s=self.timeout_s
            )
            verdict = PatchVerdict(report.outcomes, report.reasons, forged=forged)
        if run.control_seed is None:
            return verdict
        outcomes = {controls.get(test, test): outcome for test, outcome in verdict.outcomes.items()}
        return replace(verdict, outcomes=outcomes, controls=frozenset(controls.values()))

    async def _run(
        self, sandbox: Sandbox, run: _Run, parameters: RepositoryParameters, awaited: Collection[str]
    ) -> PatchVerdict:
        """Run the test files, with canaries in and next to them, until all awaited tests have an outcome.

        The files of the tests to fix come first, so that controls are awaited no longer than necessary. If no tests
        are awaited, all files are run. The tests run in a fork of the sandbox. The sandbox itself is closed, because
        its processes have seen the original files. Raises: SandboxError.
        """
        files = dict.fromkeys(test.partition("::")[0] for test in run.tests)
        rng = random.Random(secrets.randbits(64))
        canaries, beside = await write_canaries(sandbox, list(files), rng)
        await sandbox.write(AWAITED, json.dumps(sorted(awaited)).encode())
        snapshot = await sandbox.snapshot()
        await sandbox.close()
        assert SweEdit.sandbox is not None
        sandbox = await shared_backend(self.backend).create(parameters.spec(SweEdit.sandbox), snapshot=snapshot)
        chosen, path, plugins = [*files, *beside], list(parameters.path), list(parameters.plugins)
        try:
            arguments = (chosen, path, plugins, self.cpu_s, run.thorough)
            result = await JUDGE.run(
                sandbox, "judge_tests", *arguments, timeout_s=self.timeout_s, max_output_bytes=MAX_REPORT
            )
        finally:
            await sandbox.close()
        try:
            outcomes, reasons, changed = json.loads(result.stdout)
        except UNREADABLE:  # an unreadable report: no test passed
            why = f"they end early, or take more than {self.cpu_s} s of processor time"
            if result.timed_out:
                why = f"they take more than {self.timeout_s:g} s"
            elif result.oom_killed:
                why = "they need more memory than the sandbox has, see parameters['memory_mib']"
            return replace(NOTHING, reasons={"": why}, timed_out=result.timed_out)
        results = {test: outcomes.pop(test, None) for test in canaries}
        if any(outcome == "passed" for outcome in results.values()):
            return replace(NOTHING, forged=True)
        if not awaited and any(results[test] != "failed" for test in canaries if test.partition("::")[0] in beside):
            return replace(NOTHING, reasons={"": _stopped(reasons)})
        return PatchVerdict(outcomes, reasons, frozenset(changed))


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of the tests; with a seed, as controls: of one test if `single`. `thorough`: check after each test."""

    tests: tuple[str, ...]
    control_seed: int | None = None
    single: bool = False
    thorough: bool = False


def submission(episode: Trajectory) -> str | None:
    """Return the submitted patch; None if there is none."""
    final = (str(result.content) for turn in episode.turns for result in turn.results if result.final and result.ok)
    return next((text.removeprefix(SUBMITTED) for text in final if text.startswith(SUBMITTED)), None)


def _left_out(truth: Mapping[str, Any], parameters: RepositoryParameters) -> tuple[str, ...]:
    own = PROTECTED if parameters.test_runner is None else (*parameters.test_runner.protected, ".git/*")
    return (*own, *truth.get("tests", ()))


async def _sources_of_tests(
    sandbox: Sandbox, truth: Mapping[str, Any], parameters: RepositoryParameters
) -> dict[str, str]:
    """Return the existing test files by path."""
    if parameters.test_runner is None:
        return await python_sources(sandbox, truth["fail_to_pass"])
    return await files_of_tests(sandbox, truth.get("tests", ()))


def _stopped(reasons: Mapping[str, str]) -> str:
    """Return a few words about why pytest stopped early, from its output."""
    lines = [line.strip() for line in reasons.get("", "").splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(E +|\w+(\.\w+)*(Error|Exception|Exit)\b)", line)]
    message = " ".join((errors or lines)[-2:])[-300:]
    return f"pytest stops before the last test{message and ': '}{message}"


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
