"""`hidden_tests`: whether the submitted code passes tests that the agent never saw.

The calls are evaluated in a fresh sandbox that the agent never touched. Their values come back as plain data and are
compared in this process, where no submitted code runs. So a submission cannot forge a verdict by printing, exiting
early, an `__eq__` that is always true, or patched modules and frames.
"""

from __future__ import annotations

import ast
import asyncio
import json
import operator
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym import GuestModule, JudgeError, Reward, SandboxError, SandboxSpec, Trajectory, shared_backend
from agentgym.reward import SUCCESS, Components, comparison, judge_submission
from agentgym.sandbox import Backend

from . import judge_guest
from .final_answer import submitted_text
from .remote_check import RemoteCheck

SPEC = SandboxSpec(memory_mib=512, processes=32, disk_mib=32, preload=("json",))
MAX_CODE, MAX_REPORT = 200_000, 2**20
GUEST = GuestModule(__package__, "judge_guest")
MODULES = "import cmath, collections, datetime, heapq, itertools, math, re, sys\n"


RELATIONS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
}
ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class HiddenTest:
    """One assertion: the call is evaluated in the submission's sandbox, the expected value without the submission."""

    call: str
    expected: str | None  # None if the call's value only must be truthy
    negated: bool = False
    relation: str = "=="  # compares the call's value with the expected one


class HiddenTests(Reward):
    """Outcome components `success` (every test passed) and `tests_passed` (the share that did).

    The tests are `truth["tests"]`: assertions such as `assert f(2) == 4`, `assert f(2) <= 4`, `assert f(2) in (4, 5)`,
    `assert f(2)` or `assert not f(2)`. A test program is given as `truth["check"]` and `truth["entry_point"]` instead
    (see remote_check.py). `truth["setup"]` is code that runs before the submission; `truth["cpu_s"]` replaces `cpu_s`.
    The submission is the argument `code` of the first final call that succeeded; without one both components are 0.
    `tests_passed` has weight 0.

    Args:
        cpu_s: processor seconds for loading the code and for all calls together. A test that is not reached in this
            time fails. Unlike a limit on wall time, this does not fail right code on a busy host.
        timeout_s: wall seconds, for code that sleeps.
        backend: creates the judge's sandboxes; a name or a Backend.
        argument: the final tool's argument that holds the code.
    """

    weights: Mapping[str, float] = {"tests_passed": 0.0}

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
        """Judge a finished episode. Raises: JudgeError if the tests are unusable or no sandbox runs them."""
        truth = episode.task.truth
        if not isinstance(truth, dict) or not (truth.get("tests") or truth.get("check")):
            raise JudgeError(
                f"{episode.task.id} has no truth['tests'], which hidden_tests runs. Give the task its tests."
            )
        code = submitted_text(episode, self.argument)
        if code is not None and truth.get("check"):
            check = RemoteCheck(self.cpu_s, self.timeout_s, self.backend)
            held = await check.judge(code, truth["check"], truth["entry_point"], setup=truth.get("setup", ""))
            return {SUCCESS: float(held), "tests_passed": float(held)}
        passed = [False] if code is None else await self._judge_truth(code, truth)
        return {SUCCESS: float(all(passed)), "tests_passed": sum(passed) / len(passed)}

    async def feedback(self, episode: Trajectory) -> str:
        """Return the first failing test if this is a training task, else only the number of failed tests, so that the
        tests stay hidden.

        It judges the submission again. Raises: the errors of `outcome`.
        """
        code, truth = submitted_text(episode, self.argument), episode.task.truth
        if code is None:
            return "Nothing was submitted."
        if not isinstance(truth, dict) or not truth.get("tests") or truth.get("check"):
            return "" if (await self.outcome(episode))[SUCCESS] else "The hidden tests fail."
        passed = await self._judge_truth(code, truth)
        failing = [test for test, holds in zip(truth["tests"], passed, strict=True) if not holds]
        if not failing:
            return ""
        if episode.task.split != "train":
            return f"{len(failing)} of {len(passed)} hidden tests fail."
        return f"This test fails: {failing[0]}"

    async def _judge_truth(self, code: str, truth: Mapping[str, Any]) -> list[bool]:
        """Return whether each test of a truth holds for the code. Raises: JudgeError."""
        cpu_s = truth.get("cpu_s", self.cpu_s)
        timeout_s = self.timeout_s * max(1.0, cpu_s / self.cpu_s)
        limited = HiddenTests(cpu_s=cpu_s, timeout_s=timeout_s, backend=self.backend)
        return await limited.judge(code, truth["tests"], setup=truth.get("setup", ""))

    async def judge(
        self, code: str, tests: Sequence[str], *, setup: str = "", files: Mapping[str, bytes] | None = None
    ) -> list[bool]:
        """Return whether each assertion holds for the code, which is put next to `files`. Raises: JudgeError."""
        parsed = [take_apart(test) for test in tests]
        if len(code) > MAX_CODE:
            return [False] * len(parsed)
        expected = await self._expected(parsed, setup)
        calls = [test.call for test in parsed]
        no_values: dict[int, Any] = {}
        values = await judge_submission(lambda: self._run(code, calls, setup, files), self._check_sandbox, no_values)
        return [_holds(test, values[n], expected.get(n)) if n in values else False for n, test in enumerate(parsed)]

    async def _check_sandbox(self) -> None:
        """Check that a call on a harmless submission works in a sandbox. Raises: SandboxError, JudgeError."""
        if await self._run("", ["1"], "", {"harmless": b""}) != {0: judge_guest.encode(1)}:
            raise JudgeError("The judge's sandbox does not run Python correctly: it does not return the value of `1`.")

    async def _expected(self, tests: Sequence[HiddenTest], setup: str) -> dict[int, Any]:
        """Return the encoded expected values: literals are read here, other expressions are evaluated in a sandbox."""
        expected: dict[int, Any] = {}
        expressions: dict[int, str] = {}
        for number, test in enumerate(tests):
            if test.expected is not None:
                try:
                    expected[number] = judge_guest.encode(ast.literal_eval(test.expected))
                except ValueError:
                    expressions[number] = test.expected
        if expressions:
            try:
                values = await self._run(MODULES, list(expressions.values()), setup)
            except SandboxError as error:
                raise JudgeError(f"The judge's sandbox could not evaluate the expected values: {error}") from error
            for position, number in enumerate(expressions):
                if position not in values:
                    raise JudgeError(
                        f"The expected value {expressions[number]!r} of a hidden test cannot be evaluated on its own."
                    )
                expected[number] = values[position]
        return expected

    async def _run(
        self, code: str, calls: Sequence[str], setup: str, files: Mapping[str, bytes] | None = None
    ) -> dict[int, Any]:
        """Evaluate calls in a fresh sandbox. Returns: encoded values by call number, without failed calls."""
        nonce = secrets.token_hex(8)
        sandbox = await shared_backend(self.backend).create(SPEC)
        try:
            await asyncio.gather(*(sandbox.write(path, raw) for path, raw in (files or {}).items()))
            arguments = (code, setup, list(calls), nonce, self.cpu_s)
            result = await GUEST.run(sandbox, "main", *arguments, timeout_s=self.timeout_s, max_output_bytes=MAX_REPORT)
        finally:
            await sandbox.close()
        return read_report(result.stdout, nonce, len(calls))


def take_apart(test: str) -> HiddenTest:
    """Split `assert call == expected`. Raises: JudgeError if the text is not such an assertion."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape such as "\\w" in the test does not matter here
            body = ast.parse(test.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise JudgeError(f"The hidden test {test[:80]!r} is not valid Python: {error}") from error
    if len(body) != 1 or not isinstance(body[0], ast.Assert):
        raise JudgeError(f"The hidden test {test[:80]!r} must be exactly one assert statement.")
    claim = body[0].test
    if isinstance(claim, ast.Compare):
        relation = RELATIONS.get(type(claim.ops[0]))
        if len(claim.ops) != 1 or relation is None or (relation == "in" and isinstance(claim.left, ast.Constant)):
            raise JudgeError(f"The hidden test {test[:80]!r} must compare with exactly one of == != < <= > >= in.")
        call, expected = claim.left, claim.comparators[0]
        if isinstance(call, ast.Constant):  # 3 <= f(x)
            call, expected, relation = expected, call, MIRRORED.get(relation, relation)
        return HiddenTest(ast.unparse(call), ast.unparse(expected), relation=relation)
    if isinstance(claim, ast.UnaryOp) and isinstance(claim.op, ast.Not):
        return HiddenTest(ast.unparse(claim.operand), None, negated=True)
    return HiddenTest(ast.unparse(claim), None)


def _holds(test: HiddenTest, value: Any, expected: Any) -> bool:
    if test.expected is None:
        return _truth_of(value) is not test.negated
    if test.relation == "==":
        return same(value, expected)
    if test.relation == "in":
        return (
            isinstance(expected, list)
            and expected[0] in ("l", "t", "e")
            and any(same(value, each) for each in expected[1:])
        )
    if test.relation == "!=":
        return same(value, value) and not same(
            value, expected
        )  # an object of unknown kind counts as neither equal nor different
    pair = _ordered(value, expected)
    return pair is not None and ORDERS[test.relation](*pair)


def _ordered(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Return two encoded numbers, or two texts, as comparable values; None for any other pair, and for NaN."""
    if isinstance(left, str) and isinstance(right, str):
        return left, right
    numbers: list[float] = []
    for data in (left, right):
        if not (isinstance(data, list) and data[:1] == ["n"] and len(data) == 2):
            return None
        try:
            numbers.append(int(data[1], 16) if "0x" in data[1] else float(data[1]))
        except (ValueError, TypeError, OverflowError):
            return None
    return (numbers[0], numbers[1]) if not any(number != number for number in numbers) else None


def same(left: Any, right: Any) -> bool:
    """Return whether two encoded values are equal: numbers by value, whole ones exactly; objects of unknown kind (`?`)
    never are.
    """
    if not (isinstance(left, list) and isinstance(right, list)):
        return type(left) is type(right) and bool(left == right)
    if len(left) != len(right) or not left or "?" in (left[0], right[0]):
        return left == right == []
    if left[0] == right[0] == "n":
        return _same_number(left[-1], right[-1])
    return all(same(a, b) for a, b in zip(left, right, strict=True))


def _same_number(left: Any, right: Any) -> bool:
    if left == right:
        return bool(left != "nan")
    try:
        return comparison.same_number(*(int(text, 16) if "0x" in text else float(text) for text in (left, right)))
    except (ValueError, TypeError, OverflowError):
        return False


def _truth_of(data: Any) -> bool:
    """Return the truth value of an encoded value; unknown objects count as false."""
    if not isinstance(data, list):
        return bool(data)
    if data[:1] == ["n"]:
        return not _same_number(data[-1], "0x0")
    return len(data) > 1 and data[0] in ("l", "t", "e", "d", "c", "b") and bool(data[1] != "")


def read_report(raw: bytes, nonce: str, count: int) -> dict[int, Any]:
    """Return each call's encoded value by its number, from the first line with the nonce and this number; other output
    is ignored.
    """
    values: dict[int, Any] = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        mark, _, rest = line.partition(" ")
        number, _, text = rest.partition(" ")
        if mark == nonce and number.isdecimal() and len(number) < 7 and int(number) < count:
            try:
                values.setdefault(int(number), json.loads(text))
            except (ValueError, RecursionError):
                continue
    return values
