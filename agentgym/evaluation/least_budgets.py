"""Warn of tasks that need more turns than a config allows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from agentgym.environment.contract import Environment
from agentgym.registry import load
from agentgym.rollout.config import RolloutConfig
from agentgym.task.definition import Task


def warn_of_few_turns(tasks: Sequence[Task], config: RolloutConfig) -> None:
    """Warn if `Environment.least_turns` of any task exceeds `budgets.max_turns`."""
    most = config.budgets.max_turns
    needed = [count for task in tasks if (count := _least_turns(task, config)) > most]
    if needed:
        warnings.warn(
            (
                f"{len(needed)} of {len(tasks)} tasks cannot be solved within max_turns = {most}, because they "
                f"need up to {max(needed)} turns. Give max_turns={max(needed)} or more (--max-turns on the "
                "command line)."
            ),
            stacklevel=3,
        )


def _least_turns(task: Task, config: RolloutConfig) -> int:
    environment = config.environment_for(task)
    factory = load("environments", environment) if isinstance(environment, str) else environment
    least = getattr(factory, "least_turns", Environment.least_turns)
    return int(least(task))
