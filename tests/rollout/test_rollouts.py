"""The rollouts of a run: many configs on one loop, one ledger and one set of sandboxes, none of which changes."""

from __future__ import annotations

import pytest

from agentgym import Budgets, Environment, Reward, RolloutConfig, ScriptedPolicy, Task, Trajectory
from agentgym.storage.ledger import Ledger
from agentgym.training import Rollouts

TASKS = [Task("t0", "test/none-v1", "?")]


class Counted(Reward):
    """Counts the episodes that it has judged."""

    def __init__(self) -> None:
        self.count = 0

    def outcome(self, episode):
        self.count += 1
        return {"success": 1.0}


class Question(Environment):
    """Asks, and ends with the answer."""

    reward = Counted()

    async def reset(self, task, *, seed):
        return task.opening()


@pytest.fixture
def rollouts(tmp_path):
    with Rollouts(RolloutConfig(environment=Question), ledger=Ledger(tmp_path / "ledger.sqlite")) as opened:
        yield opened


def episode(rollouts: Rollouts, label: str) -> Trajectory:
    (trajectory,) = rollouts.play(ScriptedPolicy(["x"]), TASKS, label=label)
    return trajectory


def test_other_rollouts_have_another_config_and_the_first_stay_as_they_are(rollouts):
    instructed = rollouts.with_config(instruction="Be brief.")
    assert episode(instructed, "a").provenance.instruction == "Be brief."
    assert episode(rollouts, "b").provenance.instruction is None
    assert episode(instructed.with_config(budgets=Budgets(max_turns=3)), "c").provenance.instruction == "Be brief."
    assert rollouts.config == RolloutConfig(environment=Question)
    with pytest.raises(AttributeError):
        rollouts.config = instructed.config


def test_they_share_the_ledger_and_another_reward_judges_only_theirs(rollouts):
    judge = Counted()
    judged = rollouts.with_config(reward=judge)
    assert episode(judged, "a").success == 1.0
    assert judge.count == 1
    episode(rollouts, "b")
    assert judge.count == 1
    assert [trajectory.id for trajectory in judged.records.labelled("")] == ["a/t0#0", "b/t0#0"]
    assert rollouts.records.load("a/t0#0").success == 1.0


def test_a_schedule_says_how_the_episodes_of_a_step_are_played(rollouts):
    scheduled = rollouts.with_config(schedule=lambda step: {"budgets": Budgets(max_turns=1 + step)})
    assert [scheduled.at_step(step).config.budgets.max_turns for step in (0, 4)] == [1, 5]
    assert scheduled.at_step(4).with_config(top_p=0.5).config.budgets.max_turns == 5
    assert scheduled.config == rollouts.config
    assert rollouts.at_step(7) is rollouts
