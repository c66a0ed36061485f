"""`self_tests`: whether the tests that the agent wrote are right, and whether they detect wrong solutions.

Sources: a gold solution known only to the trainer judges the policy's tests: ReVeal (Jin et al. 2025,
arXiv:2506.11442), for Verilog testbenches VeriPrefer (Wang et al. 2025, arXiv:2504.15804). Killed mutants as a measure
of tests: DeMillo et al. 1978.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import JudgeError, Reward, Trajectory, Turn
from agentgym.reward import Components
from agentgym.sandbox import Backend

from .final_answer import final_call
from .hidden_tests import HiddenTests

MAX_TESTS, MAX_LENGTH = 20, 500


class SelfTests(Reward):
    """Turn component `tests_valid`, outcome components `tests_valid_final` and `mutants_killed`, each from 0 to 1.

    Tests are the list argument `tests` of a call: assertions `assert f(2) == 4` with literal arguments and a literal
    value, so that a test depends only on the function's values. A test is valid if the gold solution,
    `truth["reference"]`, passes it; a mutant of `truth["mutants"]` is killed if a valid test fails on it. In the turn
    that first has it, a valid test earns 1/MAX_TESTS and an invalid one costs as much; repeated tests earn nothing. The
    outcome components judge the first 20 tests of the final call.

    Args:
        argument: the tools' argument that holds the tests.
        cpu_s: processor seconds of all tests on one solution. backend: creates the sandboxes.
    """

    weights: Mapping[str, float] = {"tests_valid": 0.1, "tests_valid_final": 0.1, "mutants_killed": 0.2}

    def __init__(self, *, argument: str = "tests", cpu_s: int = 5, backend: str | Backend = "namespaces") -> None:
        self.argument, self.judge = argument, HiddenTests(cpu_s=cpu_s, backend=backend)

    async def turn(self, turn: Turn, episode: Trajectory) -> Components:
        """Judge a turn. Raises: JudgeError if the task has no reference."""
        reference = _reference(episode)
        earlier_tests = {test for past in episode.turns if past.index < turn.index for test in self._written(past)}
        new = [test for test in self._written(turn) if test not in earlier_tests][
            : max(MAX_TESTS - len(earlier_tests), 0)
        ]
        if not new:
            return {"tests_valid": 0.0}
        valid = sum(await self._holding(reference, new))
        return {"tests_valid": (2 * valid - len(new)) / MAX_TESTS}

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no reference or no mutants."""
        reference, mutants = _reference(episode), episode.task.truth.get("mutants")
        if not mutants:
            raise JudgeError(
                f"{episode.task.id} has no truth['mutants'], so self_tests cannot tell which errors the tests notice."
            )
        tests = self._final(episode)
        if not tests:
            return {"tests_valid_final": 0.0, "mutants_killed": 0.0}
        holding = await self._holding(reference, tests)
        valid = [test for test, holds in zip(tests, holding, strict=True) if holds]
        killed = [bool(valid) and not all(await self.judge.judge(mutant, valid)) for mutant in mutants]
        return {"tests_valid_final": len(valid) / len(tests), "mutants_killed": sum(killed) / len(killed)}

    async def _holding(self, solution: str, tests: Sequence[str]) -> list[bool]:
        """Return, for each test, whether it is well formed and passes on a solution."""
        formed = [test for test in tests if is_plain(test)]
        held = await self.judge.judge(solution, formed) if formed else []
        verdicts = dict(zip(formed, held, strict=True))
        return [verdicts.get(test, False) for test in tests]

    def _written(self, turn: Turn) -> list[str]:
        """Return the tests in a turn's successful calls, without duplicates."""
        tests = [
            test
            for call, result in zip(turn.calls, turn.results, strict=False)
            if result.ok
            for test in _listed(call.arguments.get(self.argument))
        ]
        return list(dict.fromkeys(tests))

    def _final(self, episode: Trajectory) -> list[str]:
        final = final_call(episode)
        return list(dict.fromkeys(_listed(final[0].arguments.get(self.argument))))[:MAX_TESTS] if final else []


def is_plain(test: str) -> bool:
    """Return whether a text is a short `assert name(literals) == literal`."""
    try:
        body = ast.parse(test.strip()).body if len(test) <= MAX_LENGTH else []
        claim = body[0].test if len(body) == 1 and isinstance(body[0], ast.Assert) else None
        if not isinstance(claim, ast.Compare) or len(claim.ops) != 1 or not isinstance(claim.ops[0], ast.Eq):
            return False
        call = claim.left
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return False
        for node in (*call.args, *(keyword.value for keyword in call.keywords), claim.comparators[0]):
            ast.literal_eval(node)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False
    return True


def _listed(value: Any) -> list[str]:
    return [test for test in value if isinstance(test, str)] if isinstance(value, list | tuple) else []


def _reference(episode: Trajectory) -> str:
    truth = episode.task.truth
    if not isinstance(truth, dict) or not isinstance(truth.get("reference"), str):
        raise JudgeError(f"{episode.task.id} has no truth['reference'], a correct solution, which self_tests needs.")
    return str(truth["reference"])
