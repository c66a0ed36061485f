"""A run has one reward, and its schedules follow the training."""

from __future__ import annotations

from functools import partial

import pytest

from agentgym import Combined, Environment, Reward, RolloutConfig, Schedule, ScriptedPolicy, Task, load_reward, register
from agentgym.errors import CreditError
from agentgym.methods.signals.branching import Branching
from agentgym.training import Rollouts
from agentgym.training.gatherers import StepRequest


class AnswerOnly(Environment):
    """Nothing but talk, in memory: nothing to be isolated."""


def test_a_reward_follows_the_training_and_stays_the_same_one_from_step_to_step():
    """Half-way the weight is half; validation tells no progress, and changes nothing."""
    register("test/said-v1", AnswerOnly)
    reward = Combined(load_reward("answer_match"), schedules={"success": Schedule(1.0, 0.0)})
    tasks = [Task("t", "test/said-v1", truth={"answer": "x"})]
    with Rollouts(RolloutConfig(reward=reward)) as rollouts:
        play = partial(rollouts.play, ScriptedPolicy(["no idea"]), tasks)
        assert play(label="a")[0].weights == {"success": 1.0}
        assert play(label="b", progress=0.5)[0].weights == {"success": 0.5}
        assert play(label="c")[0].weights == {"success": 0.5}
    with Rollouts(RolloutConfig(reward="answer_match")) as rollouts:
        assert isinstance(rollouts.reward, Reward)


def test_trees_are_not_grown_under_a_reward_that_sees_whole_groups():
    """Branches are in no group, so that their rewards would lack a component that their trunks have."""
    with (
        Rollouts(RolloutConfig(reward="majority_vote")) as rollouts,
        pytest.raises(CreditError, match="MajorityVote judges whole groups"),
    ):
        Branching().grow(StepRequest(rollouts, ScriptedPolicy(["x"]), [], "a", 4))
