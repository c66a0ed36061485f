"""Checks the losses of a recipe."""

from __future__ import annotations

from typing import Any

from planned import check_parts_of

from agentgym import TaskSet
from agentgym.training import Recipe


def check(train: dict[str, Any], task_set: TaskSet | None = None, processes: int = 1, **sections: Any) -> None:
    """Check every part of a recipe with these keys of [train]."""
    data = {"name": "losses", "tasks": {"set": "text/countdown-v1"}, "policy": {"tiny": {}}, **sections}
    recipe = Recipe.parse({**data, "train": {"steps": 1, **train}})
    check_parts_of(recipe, task_set, processes)
