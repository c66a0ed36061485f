"""`math_verify`: a second opinion on mathematical answers by the library Math-Verify, run inside a sandbox.

Published results on mathematics often use this library. It evaluates what it parses (with sympy), and the answer may be
hostile, so it runs in a fresh sandbox. An answer that takes over this sandbox could forge the verdict; therefore the
component has weight 0. Judge with `symbolic_maths`, which never executes an answer, and inspect the differences.
Source: Math-Verify (Kydlicek, Hugging Face), https://github.com/huggingface/Math-Verify.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from agentgym import (
    JudgeError,
    MissingExtraError,
    Reward,
    SandboxSpec,
    Trajectory,
    install_command,
    shared_backend,
)
from agentgym.reward import Components, judge_submission
from agentgym.sandbox import Backend

from .final_answer import final_answer, gold_answers

SPEC = SandboxSpec(memory_mib=1024, processes=32, disk_mib=32, preload=("math_verify",))
MAX_CHARS, MAX_REPORT = 2_000, 10_000
PROGRAM = """
from math_verify import parse, verify
answer, gold, nonce = {inputs!a}
def boxed(text):
    return parse(text if "boxed" in text or "$" in text else "$" + text + "$", parsing_timeout=None)
agrees = any(verify(boxed(text), boxed(answer), timeout_seconds=None) for text in gold)
print(nonce, agrees)
"""


class MathVerify(Reward):
    """Outcome component `math_verify`: 1.0 if Math-Verify finds the final answer equal to a gold answer; weight 0.

    The gold answers are `truth["answer"]`, a text or a list of texts, and `truth["answers"]`. An episode without an
    answer, an answer of more than 2,000 characters, or one that the library cannot finish in time gets 0.0. Needs the
    extra `maths`.

    Args:
        argument: the final tool's argument that holds the answer.
        timeout_s: wall seconds of one comparison. backend: creates the sandboxes; a name or a Backend.
    """

    weights: Mapping[str, float] = {"math_verify": 0.0}

    def __init__(
        self, argument: str = "text", *, timeout_s: float = 20.0, backend: str | Backend = "namespaces"
    ) -> None:
        self.argument, self.timeout_s, self.backend = argument, timeout_s, backend

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError without a gold answer or a working sandbox; MissingExtraError without Math-Verify.
        """
        gold = gold_answers(episode, "math_verify")
        answer = final_answer(episode, self.argument)
        if answer is None or not answer.strip() or len(answer) > MAX_CHARS:
            return {"math_verify": 0.0}
        return {"math_verify": float(await self.agrees(answer, gold))}

    async def agrees(self, answer: str, gold: Sequence[str]) -> bool:
        """Return whether the library finds an answer equal to one of the gold answers. Raises: as `outcome` does."""
        if find_spec("math_verify") is None:
            raise MissingExtraError(
                "The reward math_verify needs the package Math-Verify, which is not installed. Run: "
                f"{install_command('maths')}"
            )
        return await judge_submission(lambda: self._run(answer, gold), self._check_sandbox, False)

    async def _run(self, answer: str, gold: Sequence[str]) -> bool:
        nonce = secrets.token_hex(8)
        program = PROGRAM.format(inputs=(answer, list(gold), nonce))
        sandbox = await shared_backend(self.backend).create(SPEC)
        try:
            result = await sandbox.run_python(program, timeout_s=self.timeout_s, max_output_bytes=MAX_REPORT)
        finally:
            await sandbox.close()
        return f"{nonce} True" in result.text.splitlines()

    async def _check_sandbox(self) -> None:
        """Check that a sandbox can compare two harmless answers. Raises: SandboxError, JudgeError."""
        if not await self._run("1", ["1"]):
            raise JudgeError("Math-Verify does not work in the judge's sandbox: it does not judge 1 equal to 1.")
