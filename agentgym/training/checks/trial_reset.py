"""Reset one task of each environment before a run: a backend, program or parameter that is missing shows here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from agentgym import registry
from agentgym.environment import Environment
from agentgym.errors import EnvironmentServerError, RecipeError, SandboxError
from agentgym.rollout.answers import check_messages
from agentgym.rollout.causes import cause_of
from agentgym.task import Task, TaskSet
from agentgym.training.recipe.recipe import Recipe


class _ParametersRead(dict[str, Any]):
    """Parameters of a task that note which of them were asked for, by their own name or by reading all."""

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


def check_environments(recipe: Recipe, task_set: TaskSet) -> None:
    """Reset one task of each environment, as the recipe's episodes and its control evaluation do.

    Raises: RecipeError for a key of `evaluate.control` that no environment reads, and for an environment whose reset
        fails; SandboxError, such as SandboxUnavailable, where the machine lacks something; EnvironmentServerError.
    """
    asyncio.run(_reset_each(recipe, task_set))


async def _reset_each(recipe: Recipe, task_set: TaskSet) -> None:
    control, user = recipe.evaluate.control, registry.BackendUser()
    first_tasks = {task.environment: task for split in ("held_out", "train") for task in task_set[split]}
    parameters_read: set[str] = set()
    try:
        for task in first_tasks.values():
            await _reset(recipe, task, "")
        for task in {task.environment: task for task in task_set["held_out"]}.values() if control else ():
            parameters = _ParametersRead({**task.parameters, **control})
            await _reset(recipe, replace(task, parameters=parameters), f" with evaluate.control = {control}")
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


async def _reset(recipe: Recipe, task: Task, condition: str) -> None:
    source = registry.environment_of(recipe.episode.environment, task.environment)
    environment: Environment = registry.make(source, backend=recipe.episode.backend)
    activity = f"resetting {task.environment} for the task {task.id}{condition}"
    try:
        async with asyncio.timeout(recipe.episode.time_s):
            opening = await environment.reset(task.public(), seed=recipe.seed)
        check_messages(opening, environment.unwrapped.reset, "return task.opening()")
    except (SandboxError, EnvironmentServerError):  # says what the machine lacks, or the server
        raise
    except Exception as error:
        key = "evaluate.control" if condition else recipe.tasks.title
        raise RecipeError(f"{key}: {cause_of(error, activity)}") from error
    finally:
        await environment.close()
