"""`hidden_calls`: whether the submitted function returns the right values, in any supported language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym import JudgeError, Reward, SandboxError, Task, Trajectory, shared_backend
from agentgym.reward import SUCCESS, Components, judge_submission
from agentgym.sandbox import Backend
from agentgym.sandboxes.languages import (
    FUNCTION_SPEC,
    CalledFunction,
    CallFailed,
    Case,
    FunctionTask,
    Language,
    Signature,
    build,
    check_language,
    language_snapshot,
    same_value,
)

from .final_answer import final_call

MAX_CODE = 200_000


class HiddenCalls(Reward):
    """Outcome components `success` (every value is right) and `calls_passed` (the share of right values).

    The task's `parameters["function"]` and `parameters["languages"]` declare the function; the final call's argument
    `language` names its language, by default the first. `truth["calls"]` is a list of {"arguments", "value"}; numbers
    of type float may differ by a relative tolerance: the call's "tolerance", else `truth["tolerance"]`, else 1e-9.

    The submission is compiled and called in a fresh sandbox, one call at a time. The sandbox never holds an expected
    value: return values are read as data of the declared type and compared in this process. A program that ends early,
    or sends anything else, fails this call and all later ones. `calls_passed` has weight 0.

    Args:
        cpu_s: processor seconds for all calls together. timeout_s: wall seconds for all calls, for code that sleeps.
        backend: creates the judge's sandboxes; a name or a Backend.
        argument: the final tool's argument that holds the code.
    """

    weights: Mapping[str, float] = {"calls_passed": 0.0}

    def __init__(
        self,
        *,
        cpu_s: int = 10,
        timeout_s: float = 60.0,
        backend: str | Backend = "namespaces",
        argument: str = "code",
    ) -> None:
        self.cpu_s, self.timeout_s, self.backend, self.argument = cpu_s, timeout_s, backend, argument

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task's calls are unusable, or no sandbox or toolchain works.
        """
        truth = episode.task.truth
        if not isinstance(truth, dict) or not truth.get("calls"):
            raise JudgeError(
                f"{episode.task.id} has no truth['calls'], which hidden_calls runs. Give the task its calls."
            )
        try:
            task = FunctionTask.of(episode.task.parameters)
            cases = task.cases(truth["calls"])
        except ValueError as error:
            raise JudgeError(f"{episode.task.id} cannot be judged by hidden_calls: {error}.") from error
        final = final_call(episode)
        arguments = final[0].arguments if final is not None else {}
        code, name = arguments.get(self.argument), arguments.get("language", "")
        if not isinstance(code, str) or len(code) > MAX_CODE or name not in ("", *task.languages):
            return {SUCCESS: 0.0, "calls_passed": 0.0}
        passed = await self.judge(
            code, task.language(name), task.signature, cases, tolerance=truth.get("tolerance", 1e-9)
        )
        return {SUCCESS: float(all(passed)), "calls_passed": sum(passed) / len(passed)}

    async def task_fault(self, task: Task) -> str:
        """Return the call at which the truth's reference fails; empty if the reference passes. Raises: JudgeError."""
        truth = task.truth if isinstance(task.truth, dict) else {}
        reference = truth.get("reference")
        if not isinstance(reference, str) or not reference.strip() or not truth.get("calls"):
            return ""
        try:
            function = FunctionTask.of(task.parameters)
            cases = function.cases(truth["calls"])
        except ValueError as error:
            return str(error)
        tolerance = truth.get("tolerance", 1e-9)
        passed = await self.judge(reference, function.language(), function.signature, cases, tolerance=tolerance)
        if all(passed):
            return ""
        return f"its reference passes {sum(passed)} of {len(passed)} calls: call {passed.index(False)} fails"

    async def judge(
        self, code: str, language: Language, signature: Signature, cases: Sequence[Case], *, tolerance: float = 1e-9
    ) -> list[bool]:
        """Return per case whether the code returns its value. Raises: JudgeError if no sandbox or toolchain works."""
        backend = shared_backend(self.backend)
        try:
            await language_snapshot(backend, FUNCTION_SPEC, language)
        except SandboxError as error:
            raise JudgeError(f"The judge cannot run {language.title} code: {error}") from error

        return await judge_submission(
            lambda: self._passed(code, language, signature, cases, tolerance),
            lambda: check_language(backend, FUNCTION_SPEC, language),
            [False] * len(cases),
        )

    async def _passed(
        self, code: str, language: Language, signature: Signature, cases: Sequence[Case], tolerance: float
    ) -> list[bool]:
        backend = shared_backend(self.backend)
        snapshot = await language_snapshot(backend, FUNCTION_SPEC, language)
        sandbox = await backend.create(FUNCTION_SPEC, snapshot=snapshot)
        try:
            if not (await build(sandbox, language, signature, code)).ok:
                return [False] * len(cases)
            function = await CalledFunction.start(
                sandbox, language, signature, cpu_s=self.cpu_s, timeout_s=self.timeout_s
            )
            return [await _is_right(function, signature, case, tolerance) for case in cases]
        finally:
            await sandbox.close()


async def _is_right(function: CalledFunction, signature: Signature, case: Case, tolerance: float) -> bool:
    try:
        value = await function.call(case.arguments)
    except CallFailed:
        return False
    own = tolerance if case.tolerance is None else case.tolerance
    return bool(same_value(signature.returns, case.value, value, tolerance=own))
