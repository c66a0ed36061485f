"""Every kind of stage has a recipe of some minutes, and each of them can start."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.registry import load_task_set, names
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.stages.plan import planned_stages

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "stages").glob("*.toml"))


@pytest.fixture(scope="module")
def tasks():
    """All of these recipes play the same set."""
    return load_task_set("text/number-guess-v1").tagged("level_0", "level_1", "level_2")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_of_stages_can_start(path, tasks):
    recipe = Recipe.load(path)
    assert (recipe.name, recipe.tasks.set) == (path.stem, tasks.name)
    check_before_start(recipe, tasks)


def test_every_kind_of_stage_has_a_recipe():
    planned = {stage.kind for path in RECIPES for stage in planned_stages(Recipe.load(path))}
    written = {section.kind for path in RECIPES for section in Recipe.load(path).stage}
    assert planned | written | {"control"} >= {name for name in names("stages") if not name.startswith("test_")}
