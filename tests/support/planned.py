"""Asking the parts of a recipe whether they fit, without its tasks, model and servers."""

from __future__ import annotations

from agentgym import TaskSet
from agentgym.training import Recipe
from agentgym.training.checks.parts import parts_of, plan_of
from agentgym.training.fit import check_parts
from agentgym.training.processes import Processes
from agentgym.training.stages.plan import planned_stages


def check_parts_of(recipe: Recipe, task_set: TaskSet | None = None, processes: int = 1) -> None:
    """Ask every stage and every part of every stage. Raises: RecipeError."""
    for stage in planned_stages(recipe):
        plan = plan_of(stage, task_set or recipe.tasks.load(), Processes(0, processes))
        check_parts([stage, *parts_of(plan)], plan)
