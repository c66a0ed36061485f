"""Validate tasks by playing them: the solution must be paid, and doing nothing and cheating must not.

Each task is played by scripts: twice by an agent that does nothing, twice by the task set's oracle, and once by each
reward hack of its environment (`Environment.reward_hacks`). Verdicts are kept on disk as they are reached.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym.environment.contract import Environment
from agentgym.errors import AgentGymError, TaskError
from agentgym.messages import Call, Message
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.registry import load, load_reward
from agentgym.reward.contract import Reward, validate_feedback
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.manager import EpisodeManager
from agentgym.rollout.sandbox_check import check_limits
from agentgym.storage.journal import Journal
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet
from agentgym.trajectory.record import Trajectory

Kind = Literal["sound", "unsolved", "hackable", "flaky", "faulty", "undecided"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BUDGETS = Budgets(max_turns=1_000, max_calls=1_000, max_turn_tokens=10**7, time_s=86_400.0, infra_retries=2)
RAISED_IN = re.compile(r"( at \S+:\d+)? \(while [^()]*\)$")
"""What a failed episode's error says of the code that raised it."""
GENERAL = (
    (r"""(?<!\w)('[^']*'|"[^"]*")""", "'...'"),
    (r"(?<!\S)/[^\s,:]+", "/..."),
    (r"\d+(\.\d+)?", "N"),
)
"""What differs from task to task in a reason, and what a summary has in its place."""
PAUSES_S = (1.0, 10.0)
"""The waits before a task is tried again after a failure of this host."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a task after scripts have played it.

    Attributes:
        kind: `sound`: its solution is paid 1, doing nothing 0, both twice, and no reward hack is paid. `unsolved`: the
            same, without a solution to play. `hackable`: a reward hack is paid. `flaky`: of two equal episodes
            one is paid more. `faulty`: it cannot be set up, its solution is not paid, or doing nothing is.
            `undecided`: this host failed, so nothing is known of the task.
        reason: why, in a sentence; empty for a sound task.
        seconds: how long the decision took.
    """

    kind: Kind
    reason: str = ""
    seconds: float = 0.0

    @property
    def summary(self) -> str:
        """The reason without what differs from task to task: details, numbers and quotations."""
        return summarise_reason(self.reason)


def summarise_reason(reason: str) -> str:
    """Return a reason's first clause, with '...' for its quotations, /... for its paths and N for its numbers."""
    for pattern, general in GENERAL:
        reason = re.sub(pattern, general, reason)
    return re.split(r":\s| \(|[.;] ", reason, maxsplit=1)[0].rstrip(".")[:200]


async def validate_tasks(
    task_set: TaskSet,
    journal: Path | None = None,
    *,
    at_once: int = 2,
    progress: Callable[[int, int, Counter[str]], None] = lambda done, total, kinds: None,
) -> dict[str, Verdict]:
    """Return the verdict on each task of a set, by task id.

    A verdict is written to the journal when it is reached, and reused while the task and the reward hacks of its
    environment are unchanged. A task that this host failed to judge, twice more after pauses, is `undecided` and not
    kept: it is tried again next time.

    Args:
        journal: the file of a `Journal`, created if missing; None to keep nothing.
        at_once: how many tasks are played concurrently.
        progress: called with the numbers of decided tasks, of all tasks, and of tasks by kind of verdict.
    Raises: LimitUnenforceable if this machine does not enforce the limits of their sandboxes.
    """
    tasks = [task for split in task_set for task in task_set[split]]
    await check_limits(tasks, RolloutConfig())
    known = None if journal is None else Journal(journal)
    gate, validation = asyncio.Semaphore(max(at_once, 1)), _Validation(task_set)
    verdicts: dict[str, Verdict] = {}
    kinds: Counter[str] = Counter()

    async def decide(task: Task) -> None:
        hacks = _hacks(task)
        key = hashlib.sha256(json.dumps([task.to_json(), repr(hacks)], sort_keys=True).encode()).hexdigest()
        if known is not None and key in known:
            stored = known[key]["verdict"]
            verdict = Verdict(stored["kind"], stored["reason"], stored["seconds"])
        else:
            async with gate:
                verdict = await validation.verdict(task, hacks)
            if known is not None and verdict.kind != "undecided":
                known.write(key, {"id": task.id, "verdict": asdict(verdict)})
        verdicts[task.id] = verdict
        kinds[verdict.kind] += 1
        progress(len(verdicts), len(tasks), kinds)

    progress(0, len(tasks), kinds)
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(decide(task))
    return {task.id: verdicts[task.id] for task in tasks}


class _Undecided(Exception):
    """This host failed; the message says how."""


class _Validation:
    """Decides about single tasks of a set."""

    def __init__(self, task_set: TaskSet) -> None:
        self._task_set = task_set
        self._rewards: dict[str, Reward] = {}

    async def verdict(self, task: Task, hacks: Mapping[str, Sequence[Message]]) -> Verdict:
        """Return the verdict on a task, after further attempts if this host fails."""
        begun = time.monotonic()
        for pause_s in (*PAUSES_S, None):
            try:
                verdict = await self._decide(task, hacks)
                break
            except TaskError as error:
                verdict = Verdict("faulty", _without_name(str(error), task))
                break
            except (_Undecided, AgentGymError, OSError, MemoryError) as error:
                verdict = Verdict("undecided", f"this host could not judge it: {error}")
                if pause_s is not None:
                    await asyncio.sleep(pause_s)
        return replace(verdict, seconds=round(time.monotonic() - begun, 2))

    async def _decide(self, task: Task, hacks: Mapping[str, Sequence[Message]]) -> Verdict:
        reward = self._reward(task)
        if fault := await _awaited(reward.task_fault(task)):
            return Verdict("faulty", str(fault))
        idle = await self._play(task, lambda: lambda seen: _idle_message(task), reward, times=2)
        paid = [_paid(trajectory) for trajectory in idle]
        if paid[0] != paid[1]:
            return Verdict("flaky", f"doing nothing is paid differently: {paid[0]:g}, then {paid[1]:g}")
        if paid[0] > 0:
            return Verdict("faulty", f"it pays {paid[0]:g} for nothing")
        solved = await self._solved(task, reward, idle[0])
        if solved.kind not in ("sound", "unsolved"):
            return solved
        fair = {0: 0.0}  # what the first messages of the solution earn, by their number
        for what, messages in hacks.items():
            [trajectory] = await self._play(task, lambda messages=messages: messages, reward)  # type: ignore[misc]
            if (earned := _paid(trajectory)) == 0:
                continue
            if (count := self._honest_messages(task, messages)) not in fair:
                start = [*messages[:count], *[_idle_message(task)] * len(messages)]
                [trajectory] = await self._play(task, lambda start=start: start, reward)  # type: ignore[misc]
                fair[count] = _paid(trajectory)
            if earned > fair[count]:
                return Verdict("hackable", f"it pays an agent that {what}: {earned:g}")
        return solved

    def _honest_messages(self, task: Task, messages: Sequence[Message]) -> int:
        """Return how many of a hack's first messages are those of the solution."""
        try:
            solution = self._task_set.solution(task)
        except TaskError:
            return 0
        pairs = zip(messages, solution, strict=False) if isinstance(solution, list | tuple) else ()
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))

    async def _solved(self, task: Task, reward: Reward, idle: Trajectory) -> Verdict:
        """Return `sound` if the solution is paid twice, `unsolved` if there is none, or what is wrong."""
        try:
            self._task_set.solution(task)
        except TaskError as error:
            has_solutions = self._task_set.oracle is not None or self._task_set.answer is not None
            if not has_solutions and type(reward).task_fault is not Reward.task_fault:
                return Verdict("sound")  # `task_fault` has tried the solution
            feedback = await self._feedback(idle, reward)
            return Verdict(
                "unsolved", f"{str(error).removeprefix(f'{task.id}: ').rstrip('.')}{feedback and ': '}{feedback}"
            )
        solved = await self._play(task, lambda: self._task_set.solution(task), reward, times=2)
        paid = [_paid(trajectory) for trajectory in solved]
        if min(paid) >= 1 - 1e-9:
            return Verdict("sound")
        feedback = await self._feedback(min(solved, key=_paid), reward)
        if paid[0] != paid[1]:
            return Verdict("flaky", f"its solution is paid differently: {paid[0]:g}, then {paid[1]:g}; {feedback}")
        return Verdict("faulty", f"its solution is not paid: {feedback or f'{paid[0]:g}'}")

    async def _play(
        self, task: Task, script: Callable[[], Any], reward: Reward, *, times: int = 1
    ) -> Sequence[Trajectory]:
        """Play a task with a script, one episode after another.

        Raises: TaskError if it cannot be set up; _Undecided if an episode failed.
        """
        config = RolloutConfig(
            reward=reward, budgets=BUDGETS, concurrency=1, state_keys=False, max_failures_in_a_row=None
        )
        manager = EpisodeManager(
            lambda task: ScriptedPolicy(_endless(script()), name="validation"), config, label="validation"
        )
        trajectories = await manager.collect([task], times)
        for error in (trajectory.error for trajectory in trajectories if trajectory.error is not None):
            name, _, text = error.partition(": ")
            if name == TaskError.__name__:
                raise TaskError(RAISED_IN.sub("", text))
            raise _Undecided(error)
        return trajectories

    async def _feedback(self, trajectory: Trajectory, reward: Reward) -> str:
        """Return what the reward says of an episode or, if it says nothing, the last result that is an error."""
        text = ""
        with suppress(AgentGymError):  # a text for people, which decides nothing
            text = await validate_feedback(reward.feedback(trajectory), reward)
        errors = [str(result.content) for turn in trajectory.turns for result in turn.results if not result.ok]
        return " ".join((text or (errors[-1] if errors else "")).split())[-400:]

    def _reward(self, task: Task) -> Reward:
        environment: type[Environment] = load("environments", task.environment)
        declared = environment.reward
        if isinstance(declared, str):
            return self._rewards.setdefault(declared, load_reward(declared))
        if declared is None:
            raise TaskError(f"its environment {task.environment} declares no reward")
        return declared


def _endless(script: Any) -> Any:
    """Return a script that says nothing more after its messages, for an episode whose last call was refused."""
    if not isinstance(script, list | tuple):
        return script
    return lambda seen: [*script, Message("assistant", "")][min(sum(m.role == "assistant" for m in seen), len(script))]


def _without_name(reason: str, task: Task) -> str:
    """Return a reason without the task's name, or the last part of it, at its beginning."""
    return reason.removeprefix(f"{task.id}: ").removeprefix(f"{task.id.rpartition('/')[2]}: ")


def _hacks(task: Task) -> Mapping[str, Sequence[Message]]:
    environment: type[Environment] = load("environments", task.environment)
    try:
        return environment.reward_hacks(task)
    except TaskError:
        return {}  # a task that cannot be read; the verdict says why


def _idle_message(task: Task) -> Message:
    """Return what an agent says that does nothing: a call without arguments that ends the episode, if there is one."""
    environment: type[Environment] = load("environments", task.environment)
    final = (tool for tool in environment.tools.values() if tool.options.final)
    name = next((tool.name for tool in final if not tool.shown_schema()["function"]["parameters"].get("required")), "")
    return Message("assistant", "", (Call(name, {}),)) if name else Message("assistant", "")


def _paid(trajectory: Trajectory) -> float:
    return trajectory.success_or_reward


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
