"""Options that several commands share: which tasks are played, and how."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.fields import Fields
from agentgym.errors import AgentGymError, TaskError
from agentgym.task.definition import SPLITS, Task
from agentgym.task.task_set import TaskSet
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.rollout.budgets import Budgets
    from agentgym.rollout.config import RolloutConfig


JUDGING = ("seed", "reward", "backend")
"""The fields of RolloutOptions that are options of a command which plays single episodes."""


class TasksArgumentError(AgentGymError, ValueError):
    """The tasks were given twice or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Which tasks a command plays."""

    tasks: Annotated[str | None, typer.Argument(metavar="TASKS")] = None
    """SET or SET:SPLIT; SET is a registered task set or a .jsonl file."""
    tasks_option: Annotated[str | None, typer.Option("--tasks", metavar="SET[:SPLIT]")] = None
    """Another way to give the argument TASKS."""
    limit: Annotated[int | None, typer.Option(min=1)] = None
    """Play only this many tasks, the same ones every time."""

    def choose(self, default_split: str) -> tuple[str, str]:
        """Return the task set and the split. Raises: TasksArgumentError if they were given twice or not at all."""
        if self.tasks is not None and self.tasks_option is not None:
            raise TasksArgumentError(
                f"The tasks were given twice, as {self.tasks} and as --tasks {self.tasks_option}. Give them once."
            )
        text = self.tasks if self.tasks is not None else self.tasks_option
        if text is None:
            raise TasksArgumentError(
                "No tasks were given. Name a task set, for example sql/store-v1:held_out. `agentgym list task_sets` "
                "lists them."
            )
        return split_tasks(text, default_split)


def split_tasks(text: str, default: str) -> tuple[str, str]:
    """Split `sql/store-v1:held_out` into task set and split; a task set alone means the default split."""
    name, _, split = text.rpartition(":")
    plain = split in SPLITS or not set(split) & {"/", "\\", "."}  # `C:\\tasks.jsonl` and `./a:b/c.jsonl` are paths
    return (name, split) if name and plain else (text, default)


def one_task(task_set: TaskSet, split: str, index: int, task_id: str | None) -> Task:
    """Return the task with this id or, without an id, at this index of the split.

    Raises: TaskError naming the available tasks.
    """
    candidates = task_set[split]
    if task_id is not None:
        matching = [task for task in candidates if task.id == task_id]
        if not matching:
            some = ", ".join(task.id for task in candidates[:3])
            raise TaskError(
                f"{task_set.name}:{split} has no task {task_id!r}. It has {counted(len(candidates), 'task')}, for "
                f"example {some}."
            )
        return matching[0]
    if index >= len(candidates):
        raise TaskError(
            f"--index {index} is too large: {task_set.name}:{split} has {counted(len(candidates), 'task')}, so give "
            f"0 to {len(candidates) - 1}."
        )
    return candidates[index]


def rollout_options() -> type[RolloutOptions]:
    """Return the options of a RolloutConfig, whose import takes a while."""
    from agentgym.cli.rollout_options import RolloutOptions

    return RolloutOptions


def judging_options() -> Fields:
    """Return the options of a command that plays single episodes: seed, reward, and backend of the sandboxes."""
    return Fields(rollout_options(), JUDGING)


def backend_option() -> Fields:
    """Return the option that names the sandboxes' backend."""
    return Fields(rollout_options(), ("backend",))


def endless_budgets(**budgets: Any) -> Budgets:
    """Return budgets too large to end an episode, apart from those given: a slow player may think for a day."""
    from agentgym.rollout.budgets import Budgets

    day_s, most = 24 * 3600.0, 10_000
    endless = {"max_turns": most, "max_calls": 10 * most, "time_s": day_s, "reply_s": day_s, "max_void_turns": most}
    return Budgets(**endless | budgets)


def unhurried(config: RolloutConfig) -> RolloutConfig:
    """Return a config for a slow player, who may think for hours and send many messages without a call."""
    return replace(config, concurrency=1, budgets=endless_budgets(infra_retries=0))


def load_tasks(tasks: tuple[str, str], limit: int | None, config: RolloutConfig) -> tuple[TaskSet, list[Task]]:
    """Load a task set and choose the tasks that a command plays.

    Args:
        tasks: the task set and the split. limit: how many tasks to play; None for all.
    Raises: TaskError; EnvironmentOptionError if an environment does not take the config's options.
    """
    from agentgym import registry
    from agentgym.evaluation.runner import choose
    from agentgym.rollout.environment_options import check_environment_options

    task_set = registry.load_task_set(tasks[0])
    chosen = choose(task_set, tasks[1], limit)
    check_environment_options(chosen, config)
    return task_set, chosen


def check_sandboxes(tasks: Sequence[Task], config: RolloutConfig) -> None:
    """Check, before anything is loaded, that this host enforces the limits of the tasks' sandboxes.

    Raises: LimitUnenforceable.
    """
    from agentgym.rollout.sandbox_check import check_limits

    asyncio.run(check_limits(tasks, config))
