"""`terminal_verifier`: run the tests of a task folder on the submitted files, in another sandbox."""

from __future__ import annotations

import json
import math
import random
import secrets
import tarfile
import zlib
from collections.abc import Mapping

from agentgym import JudgeError, Reward, SandboxError, Task, TaskError, ToolError, Trajectory, load, shared_backend
from agentgym.reward import SUCCESS, Components, judge_submission
from agentgym.sandbox import Backend, Sandbox

from .build_plan import STORE
from .terminal import HANDED_IN, CodeTerminal, folder_of, put
from .terminal_image import built

REWARD_FILE = "/logs/verifier/reward"
MAX_REWARD = 2**16
OUTPUT = 2**16
UNUSABLE = (
    SandboxError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    RecursionError,
    tarfile.TarError,
    zlib.error,
)
"""Errors of unpacking a submission that `done` did not write, or that does not fit into the sandbox."""


class TerminalVerifier(Reward):
    """Outcome components `success`, the reward from 0 to 1 that the task folder's tests give, and `forged`.

    The files that the agent changed are put into a new sandbox, in which no process of the agent runs. Then the tests
    are added, and their script is run with its own time limit. The reward is 0 if the script is stopped or killed, if
    it writes no number from 0 to 1, or if the episode ended without a submission.

    A program of the agent that the tests start could write the reward itself. So if the reward is above 0 and the tests
    use pytest, they are run again with a failing test added to each file. If the reward then stays the same, but falls
    for the folder's own solution, the episode is `forged` and `success` is 0.

    Args:
        backend: makes the sandboxes; a name or a Backend.
    """

    weights: Mapping[str, float] = {"forged": 0.0}

    def __init__(self, *, backend: str | Backend = "namespaces") -> None:
        self.backend = backend

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the folder has changed, or no sandbox could run the tests.
        """
        final = (str(result.content) for turn in episode.turns for result in turn.results if result.final and result.ok)
        submission = next((text.removeprefix(HANDED_IN) for text in final if text.startswith(HANDED_IN)), None)
        if not isinstance(episode.task.truth, dict) or "folder" not in episode.task.truth:
            raise JudgeError(f"{episode.task.id} has no truth['folder'], from which terminal_verifier reads its tests.")
        if submission is None:
            return {SUCCESS: 0.0, "forged": 0.0}
        try:
            return await self.score(episode.task, submission)
        except TaskError as error:
            raise JudgeError(str(error)) from error

    async def score(self, task: Task, submission: str) -> Components:
        """Return the components that the submitted files earn; empty for no files. Raises: TaskError, JudgeError."""
        reward = await self._reward(task, submission)
        if reward > 0 and await self._is_forged(task, submission, reward):
            return {SUCCESS: 0.0, "forged": 1.0}
        return {SUCCESS: reward, "forged": 0.0}

    async def task_fault(self, task: Task) -> str:
        """Return why a task cannot be used, or an empty text.

        A task's tests must reward the folder's solution, and must not reward doing nothing. Raises: JudgeError.
        """
        try:
            if (free := await self._reward(task, "")) > 0:
                return f"its tests pay {free:g} for nothing"
            output: list[str] = []
            solution = await self.solve(task)
            if await self._reward(task, solution, output) != 1:
                return f"its solution is not paid: {output[-1] if output else 'no word'}"
        except TaskError as error:
            return str(error)
        except ToolError as error:
            return f"its solution cannot be handed in: {error}"
        return ""

    async def solve(self, task: Task) -> str:
        """Run the folder's solution and return the submission. Raises: TaskError, ToolError, SandboxError."""
        environment = load("environments", task.environment)()
        environment.backend = shared_backend(self.backend)
        try:
            await environment.reset(task.public(), seed=0)
            for message in CodeTerminal.solution_of(task):
                for call in message.calls:
                    result = await environment.call(call)
                    if not result.ok:
                        raise ToolError(str(result.content)[-500:])
            return str(result.content).removeprefix(HANDED_IN)
        finally:
            await environment.close()

    async def _is_forged(self, task: Task, submission: str, reward: float) -> bool:
        seed = secrets.randbits(64)
        folder = folder_of(task)
        if not folder.solution or not any(map(_is_pytest, folder.tests)):
            return False
        if await self._reward(task, submission, seed=seed) < reward:
            return False
        solution = await self.solve(task)
        return await self._reward(task, solution, seed=seed) < await self._reward(task, solution)

    async def _reward(
        self, task: Task, submission: str, output: list[str] | None = None, seed: int | None = None
    ) -> float:
        """Run the tests once; with a seed, together with failing tests."""
        return await judge_submission(
            lambda: self._verify(task, submission, output, seed),
            lambda: self._verify(task, "", None, None),
            0.0,
            errors=UNUSABLE,
        )

    async def _verify(self, task: Task, submission: str, output: list[str] | None, seed: int | None) -> float:
        folder, backend = folder_of(task), shared_backend(self.backend)
        spec, base = await built(backend, folder, str(task.parameters["image"]))
        sandbox = await backend.create(spec, snapshot=base)
        try:
            if submission:
                await put(sandbox, submission)
            rng = random.Random(seed)
            for path, (data, mode) in folder.tests.items():
                failing = _failing_test(rng) if seed is not None and _is_pytest(path) else b""
                await sandbox.write(f"{STORE}/tests/{path}", data + failing, mode)
            await sandbox.exec(["mkdir", "-p", "/logs/verifier", "/logs/agent"])
            result = await sandbox.exec(
                ["bash", f"/tests/{folder.test_script}"],
                cwd=folder.plan.workdir,
                env={"PYTHONNOUSERSITE": "1", **folder.verifier_environment},
                timeout_s=folder.verifier_s,
                max_output_bytes=OUTPUT,
            )
            if output is not None:
                output.append((result.stdout + result.stderr).decode("utf-8", "replace").strip()[-300:] or "no output")
            if result.timed_out or result.oom_killed or result.exit_code < 0:
                return 0.0
            return float(result.exit_code == 0) if folder.pays_by_status else await _written(sandbox)
        finally:
            await sandbox.close()


async def _written(sandbox: Sandbox) -> float:
    """Return the reward that the tests wrote, 0 for none."""
    for ending in (".txt", ".json"):
        try:
            text = (await sandbox.read(f"{STORE}{REWARD_FILE}{ending}", max_bytes=MAX_REWARD)).decode("utf-8")
            value = float(text) if ending == ".txt" else _of_json(json.loads(text))
        except SandboxError:
            raise
        except (OSError, ValueError, TypeError, RecursionError, OverflowError):
            continue
        return value if math.isfinite(value) and 0 <= value <= 1 else 0.0
    return 0.0


def _of_json(data: object) -> float:
    """Return the reward in JSON: the number itself or, of an object, the entry `reward` or else its only entry."""
    if isinstance(data, dict):
        data = data["reward"] if "reward" in data else next(iter(data.values())) if len(data) == 1 else math.nan
    return float(data) if isinstance(data, int | float) else math.nan


def _is_pytest(path: str) -> bool:
    return path.endswith(".py") and path.rpartition("/")[2].startswith("test_")


def _failing_test(rng: random.Random) -> bytes:
    first, second = rng.sample(range(2, 99), 2)
    words = "_".join(rng.sample(("keeps", "reads", "first", "order", "values", "large", "file"), 3))
    return f"\n\n\ndef test_{words}():\n    assert {first} == {second}\n".encode()
