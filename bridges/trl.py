"""Our tasks for TRL's own trainers: `GRPOTrainer(environment_factory=TrlEnvironments(...))`.

Source: TRL 1.16, `GRPOTrainer`: a factory makes objects with `reset`, `get_reward`, and methods that are tools.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, Literal, TypeVar

from agentgym import (
    AgentGymError,
    BackendUser,
    Budgets,
    Call,
    Reward,
    RolloutConfig,
    Task,
    TaskError,
    Tool,
    Trajectory,
    load_task_set,
    prototype,
)
from agentgym.interop import OfferedEpisode

__all__ = ["TrlEnvironments"]

T = TypeVar("T")
_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
    "array": list,
}
_RESERVED = ("reset", "get_reward")


class TrlEnvironments:
    """The factory of environments for a TRL trainer.

    Every tool call is a turn of an ordinary episode, which is judged when the trainer asks for the reward. Messages
    without a call never arrive here, so environments that judge the agent's text cannot be trained this way.

    Args:
        tasks: tasks of one environment; or a text such as "text/sokoban-v1:train".
        reward: registered name, or a Reward; by default the environment's. `backend`: as for `agentgym.make`.
        budgets: the budgets of an episode. Its time includes the model's writing.
        seed: seeds the environments' resets, together with each task's id.
    Raises: TaskError for several environments, or one without tools or with a tool named `reset` or `get_reward`.
    """

    def __init__(
        self,
        tasks: Sequence[Task] | str,
        *,
        reward: Reward | str | None = None,
        backend: str | None = None,
        budgets: Budgets | None = None,
        seed: int = 0,
    ) -> None:
        if isinstance(tasks, str):
            name, _, split = tasks.partition(":")
            tasks = load_task_set(name)[split or "train"]
        self._tasks = {task.id: task for task in tasks}
        environments = {task.environment for task in tasks}
        if len(environments) != 1:
            raise TaskError(
                f"The tasks belong to {len(environments)} environments: {', '.join(sorted(environments)) or 'none'}. "
                "A factory serves exactly one. For several, give TRL a dictionary of factories."
            )
        self._config = RolloutConfig(
            reward=reward,
            backend=backend,
            seed=seed,
            budgets=budgets or Budgets(max_turns=1000, max_calls=1000, max_void_turns=1000, time_s=3600.0),
        )
        (environment,) = environments
        tools = prototype(environment).tools
        if not tools or any(name in _RESERVED or not name.isidentifier() for name in tools):
            raise TaskError(
                f"{environment} has the tools {', '.join(tools) or 'none'}, which TRL cannot use. It needs tools that "
                f"exist before the reset, and whose names are valid method names other than {' or '.join(_RESERVED)}."
            )
        methods = {name: _method(tool) for name, tool in tools.items()}
        self._environment_class = type("AgentgymEnvironment", (_TrlEnvironment,), methods)
        self._numbers = count()
        self._backends = BackendUser()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agentgym-trl", daemon=True)
        self._thread.start()

    def dataset(self) -> Any:
        """Return a `datasets.Dataset` with one row per task: `prompt`, the opening messages, and `task`, the id."""
        from datasets import Dataset

        rows = [
            {"prompt": [{"role": m.role, "content": m.text} for m in task.opening()], "task": task.id}
            for task in self._tasks.values()
        ]
        return Dataset.from_list(rows)

    def __call__(self) -> Any:
        """Return a new environment."""
        return self._environment_class(self)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the shared event loop of these environments, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def begin(self, task_id: Any) -> OfferedEpisode:
        """Begin an episode. Raises: TaskError if the task is unknown or cannot begin."""
        if task_id not in self._tasks:
            raise TaskError(
                f"There is no task {task_id!r:.80}. Train on the rows of `dataset()`, each of which names its `task`."
            )
        episode = OfferedEpisode(self._tasks[task_id], self._config, label=f"trl-{next(self._numbers)}")
        await episode.begin()
        return episode

    def close(self) -> None:
        """End the sandboxes and the thread. May be called twice."""
        if self._loop.is_running():
            self.wait_for(self._backends.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class _TrlEnvironment:
    """One environment in TRL's form; its subclass has the tools as methods."""

    def __init__(self, environments: TrlEnvironments) -> None:
        self._environments = environments
        self._episode: OfferedEpisode | None = None

    def reset(self, task: Any = None, **row: Any) -> str | None:
        """Begin the episode of a row. Returns: the environment's messages beyond the prompt; None if there are none."""
        self._leave()
        self._episode = episode = self._environments.wait_for(self._environments.begin(task))
        known = [message.text for message in episode.trajectory.task.opening()]
        opening = [message.text for message in episode.trajectory.opening]
        rest = opening[len(known) :] if opening[: len(known)] == known else opening
        return "\n\n" + "\n\n".join(rest) if rest else None

    def get_reward(self) -> float:
        """End the episode as it is and return its total reward.

        Raises: AgentGymError if the infrastructure failed.
        """
        trajectory = self._leave()
        if trajectory is None:
            raise AgentGymError("get_reward was called outside of an episode. Call reset first.")
        if trajectory.error is not None:
            raise AgentGymError(
                f"The episode failed, so it has no reward, and 0 must not be trained on: {trajectory.error}"
            )
        return trajectory.return_from()

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        if self._episode is None:
            raise AgentGymError(f"{name} was called outside of an episode. Call reset first.")
        return self._environments.wait_for(self._episode.call(Call(name, arguments))).message().text

    def _leave(self) -> Trajectory | None:
        episode, self._episode = self._episode, None
        return None if episode is None else self._environments.wait_for(episode.close())


def _method(tool: Tool) -> Any:
    """Return a method with the annotations and docstring from which TRL makes the tool's schema."""

    def method(self: _TrlEnvironment, **arguments: Any) -> str:
        return self._call(tool.name, arguments)

    properties, required = tool.parameters["properties"], set(tool.parameters.get("required", ()))
    hints = {name: _hint(schema if isinstance(schema, dict) else {}) for name, schema in properties.items()}
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if name in required else properties[name].get("default"),
            annotation=hint,
        )
        for name, hint in sorted(hints.items(), key=lambda item: item[0] not in required)
    ]
    receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = inspect.Signature([receiver, *parameters], return_annotation=str)  # type: ignore[attr-defined]
    method.__annotations__ = {**hints, "return": str}
    method.__name__ = method.__qualname__ = tool.name
    lines = [
        f"    {name}: {schema.get('description') or name}" if isinstance(schema, dict) else f"    {name}: {name}"
        for name, schema in properties.items()
    ]
    method.__doc__ = "\n".join([tool.description, *(["", "Args:", *lines] if lines else [])])
    return method


def _hint(schema: Mapping[str, Any]) -> Any:
    """Return the closest type hint for a schema."""
    if values := schema.get("enum"):
        return Literal[tuple(values)]
    kind = schema.get("type")
    if kind == "array" and isinstance(items := schema.get("items"), Mapping):
        return list[_hint(items)]  # type: ignore[misc]
    return _TYPES.get(kind, str) if isinstance(kind, str) else str
