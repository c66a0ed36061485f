"""`runtime`: whether the submitted function is right, and its processor time compared with the reference.

Sources: correctness and measured runtime in one rule-based reward, ACECode (Yang et al. 2024, arXiv:2412.17264); the
metrics %OPT and SP, PIE (Shypula et al. 2023, arXiv:2302.07867, section 4). The bounded scale of `faster` is ours.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym import JudgeError, Reward, SandboxError, Trajectory, shared_backend
from agentgym.reward import SUCCESS, Components
from agentgym.sandbox import Backend

from .final_answer import submitted_text
from .fresh_files import SPEC
from .hidden_tests import GUEST, MAX_REPORT, HiddenTests, read_report, same, take_apart

IMPROVED = 1.1
"""PIE counts a program as optimised if it is at least 10 % faster."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Measurements of one program.

    Attributes:
        cpu_s: processor seconds, minus those of an empty program. values: the returned values by call number.
        started: number of processes that the program started.
    """

    cpu_s: float
    values: Mapping[int, Any]
    started: int


class Runtime(Reward):
    """Outcome components `success`, `tests_passed`, and for right code `speedup`, `faster` and `optimised`.

    The reference is `truth["reference"]`. The calls of `truth["timing"]` (by default those of the hidden tests) are run
    on the reference and on the submission in turn, each time in a fresh sandbox; of each program the smallest processor
    time counts. `speedup` is the reference's time divided by the submission's; `optimised` is 1.0 for a speedup of at
    least 1.1; `faster` grows with the logarithm of the speedup from 0 at 1 to 1 at `best`. The speedup is 0 for wrong
    code, and for code that starts other processes, which could hide time. The time is measured outside the submission's
    process. `speedup` and `optimised` have weight 0.

    Args:
        best: the speedup, above 1, at which `faster` reaches 1.0.
        rounds: number of measurements of each program. least_s: shorter processor times are raised to this value,
            because they are noise.
        cpu_s: limit of processor seconds per run. backend: creates the sandboxes.
        argument: the final tool's argument that holds the code.
    """

    weights: Mapping[str, float] = {"tests_passed": 0.0, "speedup": 0.0, "optimised": 0.0, "faster": 0.5}

    def __init__(
        self,
        *,
        best: float = 4.0,
        rounds: int = 3,
        least_s: float = 0.002,
        cpu_s: int = 20,
        backend: str | Backend = "namespaces",
        argument: str = "code",
    ) -> None:
        if not best > 1 or rounds < 1 or not least_s > 0:
            raise ValueError(
                f"best = {best}, rounds = {rounds}, least_s = {least_s} are not valid: runtime needs best > 1, rounds "
                ">= 1 and least_s > 0."
            )
        self.best, self.rounds, self.least_s, self.cpu_s = best, rounds, least_s, cpu_s
        self.backend, self.argument = backend, argument
        self.tests = HiddenTests(cpu_s=cpu_s, backend=backend, argument=argument)

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError without tests or a reference, or if no sandbox works."""
        truth = episode.task.truth
        if not isinstance(truth, dict) or not truth.get("tests") or not truth.get("reference"):
            raise JudgeError(
                f"{episode.task.id}: runtime needs truth['tests'] and truth['reference'], a solution to compare with."
            )
        components = await self.tests.outcome(episode)
        code = submitted_text(episode, self.argument)
        if code is None or components[SUCCESS] < 1.0:
            return components
        calls = truth.get("timing") or [take_apart(test).call for test in truth["tests"]]
        speedup = await self.speedup(code, truth["reference"], calls, setup=truth.get("setup", ""))
        return {
            **components,
            "speedup": speedup,
            "optimised": float(speedup >= IMPROVED),
            "faster": min(max(math.log(speedup) / math.log(self.best), 0.0), 1.0) if speedup else 0.0,
        }

    async def speedup(self, code: str, reference: str, calls: Sequence[str], *, setup: str = "") -> float:
        """Return the reference's processor time divided by the code's; 0 if the calls return different values.

        Raises: JudgeError.
        """
        of_code, of_reference = [], []
        for _ in range(self.rounds):
            of_reference.append(await self._time(reference, calls, setup))
            of_code.append(await self._time(code, calls, setup))
        expected = of_reference[0].values
        if len(expected) < len(calls):
            raise JudgeError(
                f"The reference solution answers only {len(expected)} of {len(calls)} calls, but it must answer all."
            )
        for timing in of_code:
            values = timing.values
            if any(number not in values or not same(values[number], expected[number]) for number in expected):
                return 0.0
            if timing.started > of_reference[0].started:
                return 0.0
        return max(min(t.cpu_s for t in of_reference), self.least_s) / max(min(t.cpu_s for t in of_code), self.least_s)

    async def _time(self, code: str, calls: Sequence[str], setup: str) -> Timing:
        nonce = secrets.token_hex(8)
        try:
            sandbox = await shared_backend(self.backend).create(SPEC)
            try:
                empty = await GUEST.run(sandbox, "main", "", "", [], nonce, 5)
                arguments = (code, setup, list(calls), nonce, self.cpu_s)
                result = await GUEST.run(
                    sandbox, "main", *arguments, timeout_s=6.0 * self.cpu_s, max_output_bytes=MAX_REPORT
                )
            finally:
                await sandbox.close()
        except SandboxError as error:
            raise JudgeError(f"The judge's sandbox could not measure the submission: {error}") from error
        values = read_report(result.stdout, nonce, len(calls))
        return Timing(max(result.usage.cpu_s - empty.usage.cpu_s, 0.0), values, result.usage.started)


def pie_metrics(speedups: Sequence[float]) -> dict[str, float]:
    """Return PIE's metrics over many problems, from the speedup of each, 0 for a wrong program.

    Returns: `correct`, `opt` (%OPT as a fraction: right and at least 10 % faster), `sp` (mean speedup, in which a
        wrong or slower program counts as 1). Raises: ValueError without any speedup, or for one below 0.
    """
    if not speedups or any(not value >= 0 for value in speedups):
        raise ValueError(f"speedups = {speedups!r:.100} is not valid: pie_metrics needs numbers of at least 0.")
    count = len(speedups)
    return {
        "correct": sum(value > 0 for value in speedups) / count,
        "opt": sum(value >= IMPROVED for value in speedups) / count,
        "sp": math.fsum(max(value, 1.0) for value in speedups) / count,
    }
