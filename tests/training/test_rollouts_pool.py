"""A training run's episodes may take their sandboxes from a pool, which ends with the run."""

from __future__ import annotations

import pytest

from agentgym import Call, Message, load_task_set
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.sandbox import Pool
from agentgym.training.recipe import Recipe
from agentgym.training.rollouts import Rollouts

SUBMIT = Message("assistant", "", (Call("submit", {"code": "def f(x):\n    return x"}),))


@pytest.mark.needs_namespaces
def test_rollouts_take_their_sandboxes_from_a_pool_and_end_it():
    tasks = list(load_task_set("code/functions-v1")["train"])[:6]
    with Rollouts(pool=2, concurrency=2) as rollouts:
        played = rollouts.play(ScriptedPolicy([SUBMIT]), tasks, run="a")
        played += rollouts.play(ScriptedPolicy([SUBMIT]), tasks, run="b")
        assert all(trajectory.valid for trajectory in played)
        assert isinstance(rollouts.backend, Pool)
        assert rollouts.backend.stats().hits > 0
        assert rollouts.backend.stats().leased == 0
    assert rollouts.backend.stats().ready == 0


def test_a_recipe_asks_for_it():
    recipe = {"name": "x", "tasks": {"set": "code/functions-v1"}, "policy": {"tiny": {}}, "episode": {"pool": 4}}
    assert Recipe.model_validate(recipe).episode.pool == 4
    assert Recipe.model_validate(recipe | {"episode": {}}).episode.pool == 0
