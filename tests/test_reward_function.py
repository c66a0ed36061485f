"""`@reward_function`: one function is a reward."""

from __future__ import annotations

import numpy as np
import pytest
from scripted_episodes import counting, play

from agentgym import Combined, JudgeError, reward_function
from agentgym.messages import StopReason
from agentgym.storage import Ledger


@reward_function
def success(episode) -> float:
    """Whether the counter was submitted at its target."""
    return float(episode.turns[-1].results[0].content == "submitted 2")


async def test_a_number_is_the_component_named_as_the_function():
    trajectory = await play(counting(2), reward=success)
    assert trajectory.outcome == {"success": 1.0}
    assert [turn.rewards for turn in trajectory.turns] == [{}, {}, {}]
    assert success(trajectory) == 1.0


async def test_a_function_of_a_turn_rewards_turns_and_may_be_async():
    @reward_function
    async def step(turn, episode):
        return {"first": 1.0, "calls": len(turn.calls)} if turn.index == 0 else {}

    trajectory = await play(counting(1), reward=Combined(success, step, weights={"calls": 0.5}))
    assert [turn.rewards for turn in trajectory.turns] == [{"first": 1.0, "calls": 1}, {}]
    assert trajectory.outcome == {"success": 0.0}


@pytest.mark.parametrize("kind", [bool, np.bool_, np.float32, np.int64])
async def test_an_episode_with_a_verdict_of_numpy_or_a_bool_is_kept_as_any_other(kind, tmp_path):
    @reward_function
    def success(episode):
        return kind(1)

    ledger = Ledger(tmp_path / "ledger.sqlite")
    trajectory = await play(counting(1), reward=success, ledger=ledger)
    stored = ledger.load(trajectory.id)
    ledger.close()
    assert trajectory.outcome == stored.outcome == {"success": 1.0}


async def test_a_function_that_cannot_judge_raises_and_its_episode_fails():
    @reward_function
    async def broken(episode):
        raise JudgeError("no verdict")

    trajectory = await play(counting(1), reward=broken)
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert "no verdict" in trajectory.error


def test_a_function_of_other_parameters_is_refused():
    with pytest.raises(TypeError, match="a turn and its episode"):

        @reward_function
        def wrong(a, b, c):
            return 0.0
