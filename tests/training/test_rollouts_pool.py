"""A training run's episodes may take their sandboxes from a pool, which ends with the run."""

from __future__ import annotations

import pytest

from agentgym import Call, Message, load_task_set
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import RolloutConfig
from agentgym.sandbox import Pool
from agentgym.training import Recipe, Rollouts

SUBMIT = Message("assistant", "", (Call("submit", {"code": "def f(x):\n    return x"}),))


@pytest.mark.needs_namespaces
def test_rollouts_take_their_sandboxes_from_a_pool_and_end_it():
    tasks = list(load_task_set("code/functions-v1")["train"])[:6]
    with Rollouts(RolloutConfig(concurrency=2), pool=2) as rollouts:
        trajectories = rollouts.play(ScriptedPolicy([SUBMIT]), tasks, label="a")
        trajectories += rollouts.play(ScriptedPolicy([SUBMIT]), tasks, label="b")
        assert all(trajectory.valid for trajectory in trajectories)
        assert isinstance(rollouts.config.backend, Pool)
        assert rollouts.config.backend.stats().hits > 0
        assert rollouts.config.backend.stats().leased == 0
    assert rollouts.config.backend.stats().ready == 0


def test_a_recipe_asks_for_it():
    recipe = {"name": "x", "tasks": {"set": "code/functions-v1"}, "policy": {"tiny": {}}, "episode": {"pool": 4}}
    assert Recipe.model_validate(recipe).episode.pool == 4
    assert Recipe.model_validate(recipe | {"episode": {}}).episode.pool == 0
