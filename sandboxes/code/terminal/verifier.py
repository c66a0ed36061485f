"""`terminal_verifier`: run the tests of a task folder on the submitted files, in another sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import secrets
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from agentgym import JudgeError, Reward, SandboxError, Task, TaskError, ToolError, Trajectory, load, shared_backend
from agentgym.reward import SUCCESS, Components, judge_submission
from agentgym.sandbox import Backend, Sandbox, Snapshot

from .build_context import Files
from .controls import always_passing, is_pytest, sways_tests, with_failing
from .downloads import with_downloads
from .environment import HANDED_IN, CodeTerminal
from .sandbox import folder_of, is_built_by_docker, open_task, playing, run_tests
from .submission import part_of, read_submission
from .task_network import check_reached, checked_network, network_of_tests

Keep = Callable[[str, str], bool]
REWARD_FILE = "/logs/verifier/reward"
MAX_REWARD = 2**16
MAX_KNOWN = 1_024
"""How many results are remembered."""
V = TypeVar("V")
UNUSABLE = (
    SandboxError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    RecursionError,
    zlib.error,
)
"""Errors of unpacking a submission that `done` did not write, or that does not fit into the sandbox."""


class TerminalVerifier(Reward):
    """Outcome components `success`, the reward from 0 to 1 that the task folder's tests give, and `forged`.

    The files that the agent changed are put into a new sandbox, in which no process of the agent runs. Then the tests
    are added, and their script is run with its own time limit. The reward is 0 if the script is stopped or killed, if
    it writes no number from 0 to 1, or if the episode ended without a submission.

    A reward above 0 is checked by controls; an episode that does not stand one is `forged`, and `success` is 0:
    - A program of the agent that the tests start could write the reward itself. So if the tests use pytest, they are
      run again with a failing test added to each file. The reward must fall, if it falls for the folder's solution or,
      without one, for the initial files with tests that all pass.
    - Files of the agent could stand in for the programs that test, or be loaded by them (PATH, sitecustomize.py,
      .pth, conftest.py, ld.so.preload), or be the image's entrypoint, which runs beside the tests. So the tests are
      run again without such files. The reward must stay, if it stays for the folder's solution.

    Args:
        backend: makes the sandboxes, but of tasks that Docker builds; a name or a Backend.
    """

    weights: Mapping[str, float] = {"forged": 0.0}

    def __init__(self, *, backend: str | Backend = "namespaces") -> None:
        self.backend = backend
        self._known: dict[str, Any] = {}  # by _key; what is found out once

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the folder has changed, or no sandbox could run the tests.
        """
        submission = _submitted(episode)
        if not isinstance(episode.task.truth, dict) or "folder" not in episode.task.truth:
            raise JudgeError(f"{episode.task.id} has no truth['folder'], from which terminal_verifier reads its tests.")
        if submission is None:
            return {SUCCESS: 0.0, "forged": 0.0}
        try:
            return await self.score(episode.task, submission)
        except TaskError as error:
            raise JudgeError(str(error)) from error

    async def score(self, task: Task, submission: str) -> Components:
        """Return the components that the submitted files earn; empty for no files. The same files are judged twice at
        most, if both times they earn the same. Raises: TaskError, JudgeError.
        """
        folder_of(task)  # the tests may have changed since
        scores = self._known.setdefault(_key("scores", task, submission), [])
        if len(scores) < 2 or scores[-1] != scores[-2]:
            scores.append(await self._score(task, _Submission(submission)))
            del scores[:-2]
        if len(self._known) > MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        return dict(scores[-1])

    async def _score(self, task: Task, submission: _Submission) -> Components:
        reward = await self._reward(task, submission)
        if reward > 0 and await self._is_forged(task, submission, reward):
            return {SUCCESS: 0.0, "forged": 1.0}
        return {SUCCESS: reward, "forged": 0.0}

    async def feedback(self, episode: Trajectory) -> str:
        """Return the last lines that the tests print for what was submitted."""
        submission = _submitted(episode)
        if submission is None:
            return ""
        output: list[str] = []
        await self._reward(episode.task, _Submission(submission), output)
        return output[-1] if output else ""

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

    async def _is_forged(self, task: Task, submission: _Submission, reward: float) -> bool:
        return await self._is_swayed(task, submission, reward) or await self._ignores_failures(task, submission, reward)

    async def _is_swayed(self, task: Task, submission: _Submission, reward: float) -> bool:
        """Return whether the reward falls without the files that could sway the tests, and the solution's does not."""
        if not submission.text or not folder_of(task).solution:
            return False
        backend = playing(shared_backend(self.backend), task)
        entrypoint = (await open_task(backend, task, folder_of(task))).entrypoint
        path, *programs = (await self._once("programs", task, lambda: self._programs(task))).splitlines()
        names, folders = frozenset(programs), path.split(":")

        def keep(path: str, kind: str) -> bool:
            return kind == "d" or not (sways_tests(path, names, folders) or f"/{path}" in entrypoint)

        async def solution_stays() -> bool:
            solution = await self._solution(task)
            if not await solution.loses(keep):
                return True
            return await self._reward(task, solution, keep=keep) >= await self._reward(task, solution)

        if not await submission.loses(keep) or await self._reward(task, submission, keep=keep) >= reward:
            return False
        return await self._once("stays", task, solution_stays)

    async def _ignores_failures(self, task: Task, submission: _Submission, reward: float) -> bool:
        """Return whether the reward stays although a test fails, and would have fallen for another submission: for the
        folder's solution or, if there is none, for the files as they were with tests that all pass.
        """
        tests, seed = folder_of(task).tests, secrets.randbits(64)
        if not any(map(is_pytest, tests)):
            return False
        failing = with_failing(tests, random.Random(seed))

        async def falls() -> bool:
            if folder_of(task).solution:
                honest, passing, failed = await self._solution(task), tests, failing
            else:
                honest, passing = _Submission(""), always_passing(tests)
                failed = with_failing(passing, random.Random(seed))
            return await self._reward(task, honest, tests=failed) < await self._reward(task, honest, tests=passing)

        if await self._reward(task, submission, tests=failing) < reward:
            return False
        return await self._once("falls", task, falls)

    async def _once(self, what: str, task: Task, find: Callable[[], Awaitable[V]]) -> V:
        """Return what is known of a task, and find it out the first time."""
        key = _key(what, task)
        if key not in self._known:
            self._known[key] = await find()
        return cast(V, self._known[key])

    async def _solution(self, task: Task) -> _Submission:
        return _Submission(await self._once("solution", task, lambda: self.solve(task)))

    async def _programs(self, task: Task) -> str:
        """Return PATH and the names of all programs in the task's initial files, one a line."""
        backend = playing(shared_backend(self.backend), task)
        sandbox = await backend.create((await open_task(backend, task, folder_of(task))).spec)
        try:
            result = await sandbox.exec(["bash", "-c", 'echo "$PATH"; compgen -c'], max_output_bytes=2**20)
            return result.stdout.decode("utf-8", "replace")
        finally:
            await sandbox.close()

    async def _reward(
        self,
        task: Task,
        submission: _Submission,
        output: list[str] | None = None,
        *,
        tests: Files | None = None,
        keep: Keep | None = None,
    ) -> float:
        """Run the tests once.

        Args:
            output: gets the last characters printed. tests: run instead of the folder's.
            keep: which changes of the submission count, by path and kind; None for all.
        """
        return await judge_submission(
            lambda: self._verify(task, submission, output, tests, keep),
            lambda: self._verify(task, _Submission(""), None, None, None),
            0.0,
            errors=UNUSABLE,
        )

    async def _verify(
        self, task: Task, submission: _Submission, output: list[str] | None, tests: Files | None, keep: Keep | None
    ) -> float:
        folder = folder_of(task)
        backend = playing(shared_backend(self.backend), task)
        image = await open_task(backend, task, folder)
        network = await network_of_tests(checked_network(task.parameters.get("network", "none")), folder.tests)
        snapshot = await submission.changes(keep)
        spec = network.spec(image.spec)
        if not is_built_by_docker(task):
            spec = await with_downloads(backend, spec, image, folder, network, snapshot)
        if snapshot is not None:
            spec = replace(spec, disk_mib=spec.disk_mib + snapshot.size_bytes // 2**20)
        sandbox = await backend.create(spec, snapshot=snapshot)
        try:
            await image.start(sandbox)
            result = await run_tests(sandbox, image, folder, network, tests)
            if output is not None:
                output.append((result.stdout + result.stderr).decode("utf-8", "replace").strip()[-300:] or "no output")
            if result.timed_out or result.oom_killed or result.exit_code < 0:
                return 0.0
            reward = float(result.exit_code == 0) if folder.pays_by_status else await _written(sandbox)
            if not reward:
                check_reached(sandbox, "The test script")
            return reward
        finally:
            await sandbox.close()


class _Submission:
    """Submitted files, unpacked once however often they are judged. `text`: empty for none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._snapshot: Snapshot | None = None

    async def changes(self, keep: Keep | None = None) -> Snapshot | None:
        """Return the changes that count; None for no files. Raises: as `read_submission`."""
        if not self.text:
            return None
        if self._snapshot is None:
            self._snapshot = await asyncio.to_thread(read_submission, self.text)
        return self._snapshot if keep is None else await asyncio.to_thread(part_of, self._snapshot, keep)

    async def loses(self, keep: Keep) -> bool:
        """Return whether some of the changes do not count."""
        part, every = await self.changes(keep), await self.changes()
        return part is not None and every is not None and part.id != every.id


def _key(what: str, task: Task, submission: str = "") -> str:
    """Return what a result depends on, hashed: the task, with its folder's digest and images, and the submission."""
    return hashlib.sha256(json.dumps([what, task.parameters, submission], sort_keys=True).encode()).hexdigest()


def _submitted(episode: Trajectory) -> str | None:
    final = (str(result.content) for turn in episode.turns for result in turn.results if result.final and result.ok)
    return next((text.removeprefix(HANDED_IN) for text in final if text.startswith(HANDED_IN)), None)


async def _written(sandbox: Sandbox) -> float:
    """Return the reward that the tests wrote, 0 for none. As in Harbor, reward.json decides if there is one."""
    for ending in (".json", ".txt"):
        try:
            text = (await sandbox.read(f"{REWARD_FILE}{ending}", max_bytes=MAX_REWARD)).decode("utf-8")
            value = float(text) if ending == ".txt" else _of_json(json.loads(text))
        except FileNotFoundError:
            continue
        except SandboxError:
            raise
        except (OSError, ValueError, TypeError, RecursionError, OverflowError):
            return 0.0
        return value if math.isfinite(value) and 0 <= value <= 1 else 0.0
    return 0.0


def _of_json(data: object) -> float:
    """Return the reward in JSON: the number itself or, of an object, the entry `reward` or else its only entry."""
    if isinstance(data, dict):
        data = data["reward"] if "reward" in data else next(iter(data.values())) if len(data) == 1 else math.nan
    return float(data) if isinstance(data, int | float) else math.nan
