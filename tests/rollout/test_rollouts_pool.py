"""A training run's episodes may take their sandboxes from a pool, which ends with the run."""

from __future__ import annotations

import pytest

from agentgym import Call, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.sandbox import NamespacesBackend, Pool
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


def test_a_pool_is_the_default_on_docker_where_sandboxes_are_slow_to_make():
    recipe = {"name": "x", "tasks": {"set": "code/functions-v1"}, "policy": {"tiny": {}}}
    assert Recipe.model_validate(recipe | {"episode": {"backend": "docker"}}).episode.pool == 8
    assert Recipe.model_validate(recipe | {"episode": {"backend": "docker", "pool": 0}}).episode.pool == 0
    assert Recipe.model_validate(recipe | {"episode": {"backend": "namespaces"}}).episode.pool == 0
    assert Recipe.model_validate(recipe).episode.pool == 0


def test_the_pool_of_a_caller_is_not_closed():
    class CallersPool(Pool):
        async def close(self) -> None:
            raise AssertionError("it belongs to the caller")

    with Rollouts(RolloutConfig(backend=CallersPool(NamespacesBackend()))):
        pass
