"""Rewards: named components, weights, and what is no reward."""

from __future__ import annotations

import asyncio
import math

import pytest

from agentgym import Combined, JudgeError, Reward
from agentgym.errors import RewardError
from agentgym.reward import judged


class Fixed(Reward):
    """Returns what it was given, as every kind of reward may: now or later."""

    def __init__(self, turn=None, outcome=None, weights=None):
        self.given, self.weights = {"turn": turn or {}, "outcome": outcome or {}}, weights or {}

    def turn(self, turn, episode):
        return self.given["turn"]

    async def outcome(self, episode):
        await asyncio.sleep(0)
        return self.given["outcome"]


async def test_a_reward_says_nothing_until_it_is_overridden():
    assert await judged(Reward().turn(None, None), Reward()) == {}
    assert await judged(Reward().outcome(None), Reward()) == {}


async def test_sync_and_async_answers_are_both_awaited_and_checked():
    reward = Fixed(turn={"step": 1}, outcome={"success": 0.5})
    assert await judged(reward.turn(None, None), reward) == {"step": 1}
    assert await judged(reward.outcome(None), reward) == {"success": 0.5}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"success": math.nan}, "Fixed returned nan for the component 'success'"),
        ({"success": -math.inf}, "Fixed returned -inf for the component 'success'"),
        ({"success": True}, "Fixed returned True for the component 'success'"),
        ({"success": "1"}, "Fixed returned '1' for the component 'success'"),
        ({"success": None}, "Leave a component out when there is nothing to say"),
        (1.0, "Fixed returned 1.0: a reward returns a dict"),
        ([("success", 1.0)], "a reward returns a dict"),
    ],
)
async def test_what_is_no_reward_is_refused_with_reward_component_and_value(answer, says):
    with pytest.raises(RewardError) as caught:
        await judged(answer, Fixed())
    assert says in str(caught.value)


def test_a_total_is_the_weighted_sum_and_one_where_no_weight_is_given():
    """0.5 * 2 + 1 * 3 = 4; a weight without its component counts nothing."""
    assert Fixed(weights={"a": 0.5, "unused": 9.0}).total({"a": 2.0, "b": 3.0}) == 4.0
    assert Fixed().total({}) == 0.0
    assert Fixed().total(dict.fromkeys("abcdefghij", 0.1)) == 1.0  # summed without rounding on the way


async def test_rewards_are_combined_with_their_own_weights():
    both = Combined(
        Fixed(turn={"step": 0.1}, outcome={"success": 1.0}, weights={"success": 2.0}),
        Fixed(outcome={"style": 0.5}, weights={"style": 4.0}),
        weights={"style": 0.0},
    )
    assert await both.turn(None, None) == {"step": 0.1}
    assert await both.outcome(None) == {"success": 1.0, "style": 0.5}
    assert both.weights == {"success": 2.0, "style": 0.0}
    assert both.total({"success": 1.0, "style": 0.5}) == 2.0


async def test_combined_rewards_of_one_name_are_refused():
    both = Combined(Fixed(outcome={"success": 1.0}), Fixed(outcome={"success": 0.0}))
    with pytest.raises(RewardError, match=r"both return the component \['success'\]: rename one"):
        await both.outcome(None)


async def test_a_part_that_returns_nan_is_named_and_not_its_combination():
    with pytest.raises(RewardError, match="Fixed returned nan"):
        await Combined(Fixed(outcome={"a": 1.0}), Fixed(outcome={"b": math.nan})).outcome(None)


async def test_a_judge_that_cannot_judge_is_heard_through_a_combination():
    class Down(Reward):
        async def outcome(self, episode):
            raise JudgeError("The judge's server is down.")

    with pytest.raises(JudgeError, match="server is down"):
        await Combined(Fixed(outcome={"a": 1.0}), Down()).outcome(None)
