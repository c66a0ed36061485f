"""Runs tests of any form in one sandbox against a function in another sandbox.

A test such as HumanEval's is a program with loops, tolerances, random inputs and helper functions. It cannot be split
into calls and values beforehand, and the submission could manipulate it if they shared a process. So the test runs in
its own sandbox and calls a proxy: arguments and return values are passed between the sandboxes as plain data.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from agentgym import GuestModule, SandboxDied, SandboxError, shared_backend
from agentgym.reward import judge_submission
from agentgym.sandbox import Backend, Channel

from .fresh_files import SPEC

MAX_CALLS, MAX_ANSWER = 20_000, 1_000_000
CHECKER = GuestModule(__package__, "judge_values", "judge_checker")
CANDIDATE = GuestModule(__package__, "judge_values", "judge_candidate")


class NoVerdict(SandboxError):
    """The check ended without a verdict."""


@dataclass(frozen=True, slots=True)
class RemoteCheck:
    """Runs a check against a submission.

    Attributes:
        cpu_s: processor seconds of the submission. timeout_s: wall seconds of all the submission's answers together;
            also of each step of the check between two calls.
        backend: creates both sandboxes; a name or a Backend.
    """

    cpu_s: int = 10
    timeout_s: float = 60.0
    backend: str | Backend = "namespaces"

    async def judge(self, code: str, check: str, entry_point: str, *, setup: str = "") -> bool:
        """Return whether the check finishes without an error; False if the submission keeps the check from finishing.

        Args:
            code: the submission. check: Python that calls `entry_point`. setup: Python before both.
        Raises: JudgeError if no sandbox works, or the check does not finish even without a submission.
        """
        order = {"setup": setup, "check": check, "entry_point": entry_point}
        return await judge_submission(lambda: self._run(order, code), lambda: self._run(order, ""), False)

    async def _run(self, order: dict[str, str], code: str) -> bool:
        """Run the check against a submission. Raises: SandboxError, OSError; NoVerdict."""
        backend = shared_backend(self.backend)
        tests, submission = await backend.create(SPEC), None
        try:
            submission = await backend.create(SPEC)
            checker = await tests.open_channel(["python3", "-I", "-S", "-c", CHECKER.program("serve")])
            candidate = await submission.open_channel(["python3", "-I", "-S", "-c", CANDIDATE.program("serve")])
            return await self._relay(checker, candidate, order, code)
        finally:
            await tests.close()
            if submission is not None:
                await submission.close()

    async def _relay(self, checker: Channel, candidate: Channel, order: dict[str, str], code: str) -> bool:
        """Pass calls to the candidate and answers to the checker until the checker has a verdict."""
        submission = {"setup": order["setup"], "code": code, "entry_point": order["entry_point"], "cpu_s": self.cpu_s}
        began = time.monotonic()
        alive = await self._ask(candidate, submission, began, checker) is not None
        message = await checker.request(order, timeout_s=self.timeout_s)
        for _ in range(MAX_CALLS):
            if not isinstance(message, dict) or "call" not in message:
                break
            answer = await self._ask(candidate, {"call": message["call"]}, began, checker) if alive else None
            alive = answer is not None
            message = await checker.request(answer or {"raised": "SystemExit"}, timeout_s=self.timeout_s)
        passed = message.get("passed", False) if isinstance(message, dict) else None
        if not isinstance(passed, bool):
            raise NoVerdict(f"The check of {order['entry_point']!r} returned no verdict: {message!r:.200}")
        return passed

    async def _ask(
        self, candidate: Channel, message: dict[str, Any], began: float, checker: Channel
    ) -> dict[str, Any] | None:
        """Return the submission's answer; None if its process has ended, hangs or sends anything else."""
        try:
            remaining_s = self.timeout_s + candidate.waited_s + checker.waited_s - (time.monotonic() - began)
            answer = await candidate.request(message, timeout_s=max(remaining_s, 0.001))
            return answer if isinstance(answer, dict) and len(json.dumps(answer)) <= MAX_ANSWER else None
        except (SandboxDied, TimeoutError, ValueError, RecursionError):
            return None
