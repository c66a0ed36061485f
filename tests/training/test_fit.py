"""Every part says by itself whether it fits a recipe, and the first reason of a part ends the run before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
from planned import check_parts_of
from typing_extensions import override

from agentgym import TaskSet, register
from agentgym.errors import RecipeError
from agentgym.training import Recipe
from agentgym.training.fit import Exclusion, PlannedPart, TrainingPlan, check_parts
from agentgym.training.gatherers import GathererWrapper
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.train_section import TrainSection


def long_groups(part: PlannedPart, plan: TrainingPlan) -> str:
    return "a group of more than 8 is too long" if plan.train.group_size > 8 else ""


class NeedsSteps(PlannedPart):
    excludes: ClassVar[tuple[Exclusion, ...]] = (long_groups,)

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        if not plan.train.steps:
            yield "there is no step to take part in"


def plan(**train: object) -> TrainingPlan:
    return TrainingPlan(TrainSection.model_validate(train), EpisodeSection(), TaskSet("empty", {}))


def test_a_part_that_fits_is_accepted():
    check_parts([NeedsSteps(), PlannedPart()], plan())


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        ({"steps": 0}, "there is no step to take part in"),
        ({"group_size": 9}, "a group of more than 8 is too long"),
        ({"steps": 0, "group_size": 9}, "a group of more than 8 is too long"),  # what is excluded comes first
    ],
)
def test_the_reason_is_the_text_of_the_part(train, reason):
    with pytest.raises(RecipeError, match=f"^{reason}$"):
        check_parts([PlannedPart(), NeedsSteps()], plan(**train))


def test_a_part_of_another_package_is_asked_like_those_of_agentgym():
    class OnlyShort(GathererWrapper):
        excludes: ClassVar[tuple[Exclusion, ...]] = (long_groups,)

    register("only_short", OnlyShort, kind="gatherers")
    data = {"name": "fit", "tasks": {"set": "text/countdown-v1"}, "policy": {"tiny": {}}}
    check_parts_of(Recipe.parse({**data, "train": {"gather": ["only_short"]}}))
    with pytest.raises(RecipeError, match="more than 8 is too long"):
        check_parts_of(Recipe.parse({**data, "train": {"gather": ["only_short"], "group_size": 9}}))
