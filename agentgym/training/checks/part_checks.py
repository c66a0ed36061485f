"""The one place that asks every part of a training whether it fits the recipe."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import RecipeError
from agentgym.training.parts import TrainingPart, TrainingPlan


def check_parts(parts: Sequence[TrainingPart], plan: TrainingPlan) -> None:
    """Check that every part has what it requires, and that the recipe has nothing that it excludes.

    Raises: RecipeError with the first reason of a part.
    """
    for part in parts:
        for reason in (*part.requires(plan), *(exclusion(part, plan) for exclusion in part.excludes)):
            if reason:
                raise RecipeError(reason)
