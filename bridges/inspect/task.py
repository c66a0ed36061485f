"""Our task sets as tasks of Inspect: `inspect eval agentgym/play -T tasks=text/sokoban-v1:held_out --model ...`.

Each sample is an ordinary episode of ours: Inspect's model writes its turns, our environment runs the calls, and our
reward judges the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from inspect_ai import Task as InspectTask
from inspect_ai import task as inspect_task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, ToolDef, ToolError, ToolParams

from agentgym import (
    AgentGymError,
    BackendUser,
    Budgets,
    Call,
    RolloutConfig,
    Task,
    TaskError,
    __version__,
    load_task_set,
)
from agentgym.interop import OfferedEpisode
from agentgym.text import counted

from . import sandbox  # noqa: F401 - Inspect knows our sandboxes once they are imported
from .conversation import observed, ours, theirs


@inspect_task
def play(
    tasks: str,
    reward: str | None = None,
    backend: str | None = None,
    seed: int = 0,
    max_turns: int = 16,
    time_s: float = 3600.0,
) -> InspectTask:
    """Return a split of a task set as an Inspect task. Any solver that calls tools may replace its solver.

    Args:
        tasks: a task set and a split, `sql/store-v1:held_out`, or a .jsonl file of tasks; without a split: held_out.
        reward: the reward's registered name; by default the environment's. `backend`: makes the sandboxes of the tools.
        seed: seeds the environments' resets, together with each task's id. All epochs of a task begin alike.
        max_turns, time_s: limits of an episode.
    Raises: TaskError for a split without tasks.
    """
    name, _, split = tasks.partition(":")
    task_set = load_task_set(name)
    chosen = {task.id: task for task in task_set[split or "held_out"]}
    if not chosen:
        raise TaskError(f"{task_set.name}:{split or 'held_out'} has no tasks.")
    budgets = Budgets(max_turns=max_turns, max_calls=16 * max_turns, time_s=time_s)
    episodes = _Episodes(chosen, RolloutConfig(reward=reward, backend=backend, seed=seed, budgets=budgets))
    return InspectTask(
        dataset=MemoryDataset(
            [_sample(task) for task in chosen.values()], name=f"{task_set.name}:{split or 'held_out'}"
        ),
        setup=begin_episode(episodes),
        solver=say_turns(episodes),
        cleanup=episodes.leave,
        scorer=judged_episode(episodes),
        version=__version__,
        metadata={"fingerprint": task_set.fingerprint(), "canary": task_set.canary},
    )


class _Episodes:
    """The open episodes, by the id of their sample. Backends stay open while any episode is."""

    def __init__(self, tasks: dict[str, Task], config: RolloutConfig) -> None:
        self._tasks, self._config = tasks, config
        self._open: dict[str, OfferedEpisode] = {}
        self._numbers = count()
        self._backends: BackendUser | None = None

    def __getitem__(self, state: TaskState) -> OfferedEpisode:
        return self._open[state.uuid]

    async def begin(self, state: TaskState) -> OfferedEpisode:
        """Open the episode of a sample. Raises: TaskError if the environment cannot be reset."""
        self._backends = self._backends or BackendUser()
        label = f"inspect-{next(self._numbers)}"
        episode = self._open[state.uuid] = OfferedEpisode(self._tasks[str(state.sample_id)], self._config, label=label)
        await episode.begin()
        return episode

    async def leave(self, state: TaskState) -> None:
        """End the episode of a sample, however the sample ended."""
        if (episode := self._open.pop(state.uuid, None)) is not None:
            await episode.close()
        if not self._open and self._backends is not None:
            backends, self._backends = self._backends, None
            await backends.close()


def _sample(task: Task) -> Sample:
    """Make the sample of a task, without its truth, so that no log can reveal it."""
    return Sample(
        id=task.id,
        input=[theirs(message) for message in task.opening()],
        metadata={"environment": task.environment, "tags": list(task.tags), "difficulty": task.difficulty},
    )


@solver
def begin_episode(episodes: _Episodes) -> Solver:
    """Reset the environment, and store its opening and its tools in the state."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        episode = await episodes.begin(state)
        state.messages = [theirs(message) for message in episode.trajectory.opening]
        state.tools = _tools(episode, state)
        return state

    return solve


@solver
def say_turns(episodes: _Episodes) -> Solver:
    """Let the model take turns until the episode is over. A message with all its calls is one turn."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        episode = episodes[state]
        while episode.request is not None:
            state.tools = _tools(episode, state)
            state = await generate(state, tool_calls="none")
            if not isinstance(message := state.messages[-1], ChatMessageAssistant):
                break  # one of Inspect's limits ended the sample before the model's message
            for turn in await episode.say(ours(message)):
                state.messages.extend(observed(turn))
        state.completed = True
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def judged_episode(episodes: _Episodes) -> Scorer:
    """Score the success of the episode by our reward. `metadata` has every component and the stop reason."""

    async def score(state: TaskState, target: Target) -> Score:
        trajectory = await episodes[state].close()
        if trajectory.error is not None:
            raise AgentGymError(f"The episode failed, so it has no score: {trajectory.error}")
        success = trajectory.success
        return Score(
            value=trajectory.return_from() if success is None else success,
            answer=state.output.completion,
            explanation=f"The episode ended after {counted(len(trajectory.turns), 'turn')}: {trajectory.stop_reason}.",
            metadata={
                "outcome": dict(trajectory.outcome),
                "turn_rewards": [dict(turn.rewards) for turn in trajectory.turns],
                "return": trajectory.return_from(),
                "stop_reason": str(trajectory.stop_reason),
            },
        )

    return score


def _tools(episode: OfferedEpisode, state: TaskState) -> list[Tool]:
    """Return the current tools. With another solver each call is a turn, and the last one completes the state."""
    return [
        ToolDef(
            _caller(episode, state, schema["name"]),
            name=schema["name"],
            description=schema.get("description") or schema["name"],
            parameters=ToolParams(**_described(schema["parameters"])),
            max_output=0,  # no further limit: the tool's own one has been applied
        ).as_tool()
        for schema in episode.tools
    ]


def _caller(episode: OfferedEpisode, state: TaskState, name: str) -> Callable[..., Awaitable[str]]:
    async def call(**arguments: Any) -> str:
        result = await episode.call(Call(name, arguments))
        state.completed = episode.request is None
        if not result.ok:
            raise ToolError(result.message().text)
        return result.message().text

    return call


def _described(parameters: Any) -> dict[str, Any]:
    """Return the schema in Inspect's form, in which every parameter has a description."""
    properties = {name: {"description": name, **schema} for name, schema in parameters.get("properties", {}).items()}
    return {"properties": properties, "required": list(parameters.get("required", ()))}
