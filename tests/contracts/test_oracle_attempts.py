"""The oracle of every bundled task set solves its task in each attempt of an episode, and a replay agrees with it."""

from __future__ import annotations

import pytest
from built_sets import built_set, each_task_set, one_of_each_namespace

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, close_backends, load
from agentgym.methods.attempts import Attempts


@pytest.mark.needs_namespaces
@each_task_set(by_day=one_of_each_namespace())
async def test_the_oracle_solves_its_task_again_in_a_second_attempt(name):
    task_set = built_set(name)
    task = task_set["validation"][0]
    if reason := load("environments", task.environment).unavailable_reason():
        pytest.skip(f"{task.environment}: {reason}")
    config = RolloutConfig(attempts=Attempts(), budgets=Budgets(max_turns=200, max_calls=400))
    manager = EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task)), config)
    [episode] = await manager.collect([task])
    divergence = await manager.replay(episode) if episode.valid and len(episode.rows()) == 1 else None
    await close_backends()
    if episode.error and (
        episode.error.startswith("MissingExtraError") or "not installed. Run: apt-get" in episode.error
    ):
        pytest.skip(episode.error)
    assert episode.error is None
    assert (episode.outcome["first"], episode.outcome["last"]) == (1.0, 1.0)
    assert divergence is None
