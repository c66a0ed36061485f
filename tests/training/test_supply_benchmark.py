"""benchmarks/supply.py: every arm of both sets is a recipe that could start, and differs from the others."""

from __future__ import annotations

import pytest
import supply

from agentgym.training.gatherers import make_gatherer, play_groups
from agentgym.training.samplers import sampler_of


@pytest.mark.parametrize("task_set", supply.ARMS_OF)
def test_every_arm_has_what_its_tasks_must_give(task_set, tmp_path):
    recipes = [supply.arm_recipe(task_set, arm, 3, tmp_path, 5) for arm in supply.ARMS_OF[task_set]]
    assert len({recipe.model_dump_json(exclude={"name"}) for recipe in recipes}) == len(recipes)
    loaded = {}
    for recipe in recipes:
        assert (recipe.seed, recipe.train.steps, recipe.warm_start) == (3, 5, None)
        key = recipe.tasks.model_dump_json()
        tasks = loaded[key] = loaded.get(key) or recipe.tasks.load()
        make_gatherer(play_groups, recipe.train.gather).read_tasks(tasks)
        sampler_of(recipe.train.sampler, tasks["train"], recipe.seed, recipe.tasks.weights)
        recipe.make_reward(tasks)
    assert supply.start_of(task_set, 3).warm_start is not None
