"""Reset one task of each environment before a run, to find a missing backend, program or parameter."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from agentgym import registry
from agentgym.environment import unwrapped
from agentgym.environment.contract import Environment
from agentgym.errors import EnvironmentServerError, RecipeError, SandboxError
from agentgym.rollout.checks import check_messages
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.environment_options import EnvironmentOptionError, check_environment_options
from agentgym.rollout.failures import cause_of
from agentgym.task import SPLITS, source_of
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet
from agentgym.training.recipe.episode_section import EpisodeSection


class _ParametersRead(dict[str, Any]):
    """Task parameters that record which of them were read, by name or by iteration."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        self.names |= set(super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        self.names |= set(super().keys())
        return super().keys()

    def values(self) -> Any:
        self.names |= set(super().keys())
        return super().values()

    def items(self) -> Any:
        self.names |= set(super().keys())
        return super().items()


@dataclass(frozen=True, slots=True)
class _Reset:
    """Reset the environment of a task as a recipe's episodes do. `title`: the name of the tasks in messages."""

    episode: EpisodeSection
    config: RolloutConfig
    title: str
    seed: int

    async def __call__(self, task: Task, condition: str = "", parameters: _ParametersRead | None = None) -> None:
        """Reset the environment of a task. Raises: RecipeError for an error of the environment.

        Args:
            condition: follows the name of the task in messages.
            parameters: stand in place of the task's own, and note what the environment reads.
        """
        environment: Environment = registry.make(
            registry.environment_of(self.episode.environment, task.environment),
            backend=self.config.backend,
            **self.config.options_for(task),
        )
        activity = f"resetting {task.environment} for the task {task.id}{condition}"
        try:
            async with asyncio.timeout(self.config.budgets.time_s):
                public = task.public()
                if parameters is not None:
                    public = replace(public, parameters=parameters)
                opening = await environment.reset(public, seed=self.seed)
            check_messages(opening, unwrapped(environment).reset, "return task.opening()")
        except (SandboxError, EnvironmentServerError):  # the error names what the machine or the server lacks
            raise
        except Exception as error:
            key = "evaluate.control" if condition else self.title
            raise RecipeError(f"{key}: {cause_of(error, activity)}") from error
        finally:
            await environment.close()


def check_environments(
    task_set: TaskSet,
    episode: EpisodeSection,
    control: Mapping[str, Any],
    *,
    title: str,
    seed: int,
    source_options: Mapping[str, Mapping[str, Any]] = {},
) -> None:
    """Reset one task of each environment, as the recipe's episodes and its control evaluation do.

    Args:
        episode: the recipe's [episode].
        control: `evaluate.control`, the task parameters that the control evaluation overrides.
        title: the name of the tasks in messages.
        seed: the seed of each reset.
        source_options: see RolloutConfig.
    Raises: RecipeError for an unknown option of an environment, for a key of `evaluate.control` that no environment
        reads, and for an environment whose reset fails; SandboxError, such as SandboxUnavailable, if the machine lacks
        something; EnvironmentServerError.
    """
    config = replace(episode.config(seed=seed, reward=None), source_options=source_options)
    try:
        check_environment_options((task for split in SPLITS for task in task_set[split]), config)
    except EnvironmentOptionError as error:
        raise RecipeError(f"environment_options: {error}") from error
    asyncio.run(_reset_each(task_set, _Reset(episode, config, title, seed), control))


async def _reset_each(task_set: TaskSet, reset: _Reset, control: Mapping[str, Any]) -> None:
    user = registry.BackendUser()
    splits = ("held_out", "train")
    first_tasks = {(task.environment, source_of(task)): task for split in splits for task in task_set[split]}
    parameters_read: set[str] = set()
    try:
        for task in first_tasks.values():
            await reset(task)
        for task in {task.environment: task for task in task_set["held_out"]}.values() if control else ():
            parameters = _ParametersRead({**task.parameters, **control})
            await reset(task, f" with evaluate.control = {control}", parameters)
            parameters_read |= parameters.names | set(task.parameters)
    finally:
        await user.close()
    for key in control.keys() - parameters_read:
        close = get_close_matches(key, parameters_read, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"They read: {', '.join(sorted(parameters_read))}."
        raise RecipeError(
            f"evaluate.control.{key}: no environment of {task_set.name} reads a task parameter {key!r}, so the control "
            f"would repeat the evaluation. {hint}"
        )
