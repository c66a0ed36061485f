"""`terminal_verifier`: what the tests of a task folder say of the submitted files, and whether that is forged."""

from __future__ import annotations

import hashlib
import json
import random
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from agentgym import JudgeError, Result, Reward, Task, TaskError, ToolError, Trajectory, load, shared_backend
from agentgym.reward import SUCCESS, Components
from agentgym.sandbox import Backend

from .build_context import Files
from .controls import always_passing, is_pytest, paths_in, sways_tests, with_failing
from .environment import CodeTerminal, submissions_in
from .judging import Keep, Submission, reward_in, rewards_of
from .sandbox import folder_of, open_task, playing

MAX_KNOWN = 1_024
"""How many results are remembered."""
V = TypeVar("V")


class TerminalVerifier(Reward):
    """Outcome components `success`, the reward from 0 to 1 that the task folder's tests give, and `forged`.

    The files that the agent changed are put into a new sandbox, in which no process of the agent runs. Then the tests
    are added, and their script is run with its own time limit. The reward is 0 if the script is stopped or killed, if
    it writes no number from 0 to 1, or if the episode ended without a submission. Of several steps it is the mean, or
    the last one's where the folder says so. A step that is reached but not handed in earns 0; one that is not reached,
    because the step before earned too little, does not count.

    A reward above 0 is checked by controls; an episode that does not stand one is `forged`, and `success` is 0:
    - A program of the agent that the tests start could write the reward itself. So if the tests use pytest, they are
      run again with a failing test added to each file. The reward must fall, if it falls for the folder's solution or,
      without one, for the initial files with tests that all pass.
    - Files of the agent could stand in for the programs that test, or be loaded by them (PATH, sitecustomize.py,
      .pth, conftest.py, ld.so.preload), or be the image's entrypoint, which runs beside the tests. So the tests are
      run again without such files. The reward must stay, if it stays for the folder's solution.

    A step with neither a solution nor tests of pytest has no such control. Its reward is that without such files.

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
        task = episode.task
        if not isinstance(task.truth, dict) or "folder" not in task.truth:
            raise JudgeError(f"{task.id} has no truth['folder'], from which terminal_verifier reads its tests.")
        try:
            folder = folder_of(task)
            rewards: list[float] = []
            handed_in, has_ended = submissions_in(_results(episode))
            for index, submission in enumerate(handed_in[: len(folder.steps)]):
                components = await self.score(task, submission, index)
                if components["forged"]:
                    return components
                rewards.append(components[SUCCESS])
            for step in folder.steps[len(rewards) :] if not has_ended else ():
                rewards.append(0.0)
                if step.least_rewards:
                    break
        except TaskError as error:
            raise JudgeError(str(error)) from error
        reward = rewards[-1] if folder.pays_last_step else sum(rewards) / len(rewards)
        return {SUCCESS: reward, "forged": 0.0}

    async def score(self, task: Task, submission: str, index: int = 0) -> Components:
        """Return the components that the submitted files of a step earn; empty for no files. The same files are judged
        twice at most, if both times they earn the same. Raises: TaskError, JudgeError.
        """
        folder_of(task)  # the tests may have changed since
        scores = self._known.setdefault(_key("scores", task, index, submission), [])
        if len(scores) < 2 or scores[-1] != scores[-2]:
            scores.append(await self._score(task, index, Submission(submission)))
            del scores[:-2]
        if len(self._known) > MAX_KNOWN:
            self._known.pop(next(iter(self._known)))
        return dict(scores[-1])

    async def _score(self, task: Task, index: int, submission: Submission) -> Components:
        reward = await self._reward(task, index, submission)
        if reward > 0 and await self._is_forged(task, index, submission, reward):
            return {SUCCESS: 0.0, "forged": 1.0}
        if reward > 0 and not _is_solved(task, index) and not any(map(is_pytest, folder_of(task).steps[index].tests)):
            reward = await self._unswayed(task, index, submission, reward)
        return {SUCCESS: reward, "forged": 0.0}

    async def feedback(self, episode: Trajectory) -> str:
        """Return the last lines that the tests print for what was last submitted."""
        handed_in, _ = submissions_in(_results(episode))
        if not handed_in:
            return ""
        output: list[str] = []
        await self._reward(episode.task, len(handed_in) - 1, Submission(handed_in[-1]), output)
        return output[-1] if output else ""

    async def solve(self, task: Task) -> list[str]:
        """Run the folder's solution and return the submission of each step that it reaches.

        Raises: TaskError, ToolError, SandboxError.
        """
        environment = load("environments", task.environment)()
        environment.backend = shared_backend(self.backend)
        results = []
        try:
            await environment.reset(task.public(), seed=0)
            for message in CodeTerminal.solution_of(task):
                for call in message.calls:
                    results.append(result := await environment.call(call))
                    if not result.ok:
                        raise ToolError(str(result.content)[-500:])
                if environment.ended:
                    break
            return submissions_in(results)[0]
        finally:
            await environment.close()

    async def _is_forged(self, task: Task, index: int, submission: Submission, reward: float) -> bool:
        arguments = task, index, submission, reward
        return await self._is_swayed(*arguments) or await self._ignores_failures(*arguments)

    async def _is_swayed(self, task: Task, index: int, submission: Submission, reward: float) -> bool:
        """Return whether the reward falls without the files that could sway the tests, and the solution's does not."""

        async def solution_stays() -> bool:
            solution = await self._solution(task, index)
            if solution is None:
                return False
            earned = await self._reward(task, index, solution)
            return await self._unswayed(task, index, solution, earned) >= earned

        if not _is_solved(task, index) or await self._unswayed(task, index, submission, reward) >= reward:
            return False
        return await self._once("stays", task, index, solution_stays)

    async def _unswayed(self, task: Task, index: int, submission: Submission, reward: float) -> float:
        """Return the reward without the files that could sway the tests, at most `reward`, that with them."""
        if not submission.text:
            return reward
        image = await open_task(playing(shared_backend(self.backend), task), task, folder_of(task))
        started = paths_in(image.entrypoint, image.workdir)
        programs_of = partial(self._programs, task, index)
        path, *programs = (await self._once("programs", task, index, programs_of)).splitlines()
        names, folders = frozenset(programs), path.split(":")

        def keep(path: str, kind: str) -> bool:
            return kind == "d" or not (sways_tests(path, names, folders) or f"/{path}" in started)

        if not await submission.loses(keep):
            return reward
        return min(reward, await self._reward(task, index, submission, keep=keep))

    async def _ignores_failures(self, task: Task, index: int, submission: Submission, reward: float) -> bool:
        """Return whether the reward stays although a test fails, and would have fallen for another submission: for the
        folder's solution or, if there is none, for the files as they were with tests that all pass.
        """
        tests, seed = folder_of(task).steps[index].tests, secrets.randbits(64)
        if not any(map(is_pytest, tests)):
            return False
        failing = with_failing(tests, random.Random(seed))

        async def falls() -> bool:
            honest, passing, failed = await self._solution(task, index), tests, failing
            if honest is None:
                honest, passing = Submission(""), always_passing(tests)
                failed = with_failing(passing, random.Random(seed))
            fallen = await self._reward(task, index, honest, tests=failed)
            return fallen < await self._reward(task, index, honest, tests=passing)

        if await self._reward(task, index, submission, tests=failing) < reward:
            return False
        return await self._once("falls", task, index, falls)

    async def _once(self, what: str, task: Task, index: int, find: Callable[[], Awaitable[V]]) -> V:
        """Return what is known of a task, and find it out the first time."""
        key = _key(what, task, index)
        if key not in self._known:
            self._known[key] = await find()
        return cast(V, self._known[key])

    async def _solution(self, task: Task, index: int) -> Submission | None:
        """Return what the folder's solution hands in of a step; None if there is none, or it does not get there."""
        if not _is_solved(task, index):
            return None
        texts = await self._once("solution", task, 0, lambda: self.solve(task))
        return Submission(texts[index]) if index < len(texts) else None

    async def _programs(self, task: Task, index: int) -> str:
        """Return PATH and the names of all programs in the image in which a step is tested, one a line."""
        backend, folder = playing(shared_backend(self.backend), task), folder_of(task)
        sandbox = await backend.create((await open_task(backend, task, folder.steps[index].verifier or folder)).spec)
        try:
            result = await sandbox.exec(["bash", "-c", 'echo "$PATH"; compgen -c'], max_output_bytes=2**20)
            return result.stdout.decode("utf-8", "replace")
        finally:
            await sandbox.close()

    async def _reward(
        self,
        task: Task,
        index: int,
        submission: Submission,
        output: list[str] | None = None,
        *,
        tests: Files | None = None,
        keep: Keep | None = None,
    ) -> float:
        """Run the tests of a step once; see `rewards_of`."""
        backend = shared_backend(self.backend)
        return reward_in(await rewards_of(backend, task, index, submission, output=output, tests=tests, keep=keep))


def _key(what: str, task: Task, index: int, submission: str = "") -> str:
    """Return what a result depends on, hashed: the task, with its folder's digest and images, and the submission."""
    return hashlib.sha256(json.dumps([what, task.parameters, index, submission], sort_keys=True).encode()).hexdigest()


def _is_solved(task: Task, index: int) -> bool:
    """Return whether a task's folder has a solution of a step and of all before it."""
    return all(step.solution for step in folder_of(task).steps[: index + 1])


def _results(episode: Trajectory) -> Iterator[Result]:
    return (result for turn in episode.turns for result in turn.results)
