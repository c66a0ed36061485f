"""Options that were keyword arguments before RolloutConfig still work for one release, with a warning."""

from __future__ import annotations

import pytest
from scripted_episodes import Counter, counting, task

from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.evaluation.runner import evaluate
from agentgym.policy.contract import Sampling
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.rollout import EpisodeManager
from agentgym.task import TaskSet
from agentgym.testing.counter import TargetReached


async def test_a_manager_takes_the_old_keywords_and_names_the_new_ones():
    sampling = Sampling(temperature=0.5, max_tokens=30)
    with pytest.warns(AgentGymDeprecationWarning) as noted:
        manager = EpisodeManager(
            ScriptedPolicy(counting(2)),
            environment=Counter,
            concurrency=3,
            sampling=sampling,
            run="old",  # type: ignore[call-arg]
        )
    text = " ".join(str(warning.message) for warning in noted)
    assert "config=RolloutConfig(...)" in text
    assert "label=" in text
    assert (manager.config.concurrency, manager.config.temperature, manager.label) == (3, 0.5, "old")
    assert manager.config.budgets.max_turn_tokens == 30


async def test_an_evaluation_takes_samples_and_a_reward():
    tasks = TaskSet("acme/counter-v1", {"held_out": [task("a")]})
    with pytest.warns(DeprecationWarning, match="samples="):
        evaluation = await evaluate(
            ScriptedPolicy(counting(2)), tasks, samples=2, environment=Counter, reward=TargetReached()
        )
    assert [row.success for row in evaluation.rows] == [[1.0, 1.0]]
