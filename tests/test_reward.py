"""Rewards: named components, weights, and what is no reward."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import Combined, Gate, JudgeError, Message, Reward, Schedule, Task, Trajectory, Turn
from agentgym.errors import HostOverloaded, RewardError, SandboxDied
from agentgym.reward import judge_submission, validate_components


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
    assert await validate_components(Reward().turn(None, None), Reward()) == {}
    assert await validate_components(Reward().outcome(None), Reward()) == {}


async def test_sync_and_async_answers_are_both_awaited_and_checked():
    reward = Fixed(turn={"step": 1}, outcome={"success": 0.5})
    assert await validate_components(reward.turn(None, None), reward) == {"step": 1}
    assert await validate_components(reward.outcome(None), reward) == {"success": 0.5}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"success": math.nan}, "Fixed returned nan for the component 'success'"),
        ({"success": -math.inf}, "Fixed returned -inf for the component 'success'"),
        (
            {"success": 100.0},
            "Fixed returned 100.0 for the component 'success', which must be from 0 to 1",
        ),
        ({"success": -0.1}, "from 0 to 1"),
        ({"success": np.float32(2)}, "from 0 to 1"),
        ({"score": np.array([1.0])}, "for the component 'score'"),
        ({"score": 1j}, "for the component 'score'"),
        ({"score": np.float64("nan")}, "for the component 'score'"),
        ({"success": "1"}, "Fixed returned '1' for the component 'success'"),
        ({"success": None}, "Leave the component out when it does not apply"),
        (1.0, "Fixed returned 1.0, but a reward must return a dict"),
        ([("success", 1.0)], "but a reward must return a dict of components"),
    ],
)
async def test_what_is_no_reward_is_refused_with_reward_component_and_value(answer, says):
    with pytest.raises(RewardError) as caught:
        await validate_components(answer, Fixed())
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1.0),
        (np.bool_(False), 0.0),
        (np.float32(0.5), 0.5),
        (np.int64(1), 1.0),
        (np.array(1.0), 1.0),
        (1 + 1e-12, 1.0),
    ],
)
async def test_a_number_of_any_kind_is_a_verdict_and_becomes_a_float(value, number):
    components = await validate_components({"success": value}, Fixed())
    assert components == {"success": number}
    assert type(components["success"]) is float
    assert await validate_components({"cost": -7}, Fixed()) == {"cost": -7.0}


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
    with pytest.raises(RewardError, match=r"both return the component \['success'\]. Rename one"):
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


def episode(outcome=None, *turns):
    trajectory = Trajectory("e", Task("t", "x/y-v1"), outcome=outcome or {})
    trajectory.turns = [Turn(n, Message("assistant"), rewards=dict(rewards)) for n, rewards in enumerate(turns)]
    return trajectory


@pytest.mark.parametrize(
    ("schedule", "progress", "factor"),
    [
        (Schedule(1.0, 0.0), 0.25, 0.75),
        (Schedule(0.0, 2.0, begin=0.5), 0.25, 0.0),
        (Schedule(0.0, 2.0, begin=0.5), 0.75, 1.0),
        (Schedule(0.0, 1.0, shape="cosine"), 0.5, 0.5),
        (Schedule(0.0, 1.0, shape="cosine"), 1 / 3, 0.25),  # (1 - cos 60 degrees) / 2
        (Schedule(0.0, 1.0, finish=0.5, shape="step"), 0.49, 0.0),
        (Schedule(0.0, 1.0, finish=0.5, shape="step"), 0.5, 1.0),
        (Schedule(0.0, 1.0, begin=0.5, finish=0.5), 0.5, 1.0),
    ],
)
def test_a_schedule_goes_from_start_to_end_between_begin_and_finish(schedule, progress, factor):
    assert schedule.factor(progress) == pytest.approx(factor)


def test_a_scheduled_weight_follows_the_training_and_multiplies_the_given_one():
    """format counts 2.0 * 1.0 at first and 2.0 * 0.5 half-way; success is not touched."""
    both = Combined(
        Fixed(outcome={"format": 1.0}, weights={"format": 9.0}),
        Fixed(outcome={"success": 1.0}),
        weights={"format": 2.0},
        schedules={"format": Schedule(1.0, 0.0)},
    )
    assert both.weights == {"format": 2.0}
    both.set_progress(0.5)
    assert both.weights == {"format": 1.0}
    assert both.weights_for(episode({"format": 1.0, "success": 1.0})) == {"format": 1.0}
    assert both.total({"format": 1.0, "success": 1.0}) == 2.0


@pytest.mark.parametrize(("success", "weight"), [(1.0, 0.5), (0.5, 0.5), (0.49, 0.0)])
def test_a_gate_opens_at_its_threshold(success, weight):
    gated = Combined(Fixed(weights={"step": 0.5}), gates=[Gate("success", 0.5, opens=("step",))])
    judged_one = episode({"success": success, "style": 1.0}, {"step": 1.0})
    assert gated.weights_for(judged_one) == {"step": weight}


def test_a_gate_without_names_shuts_everything_but_its_own_component():
    gated = Combined(Fixed(), gates=[Gate("success", 1.0)])
    weights = gated.weights_for(episode({"success": 0.0, "style": 1.0}, {"step": 1.0}))
    assert weights == {"style": 0.0, "step": 0.0}


def test_a_gate_stays_shut_where_nobody_said_how_high():
    assert Combined(gates=[Gate("success", -5.0)]).weights_for(episode({"style": 1.0})) == {"style": 0.0}


def test_a_cap_bounds_what_a_component_can_bring_in_an_episode():
    """Four turns of 0.5 make 2.0; capped at 1.0 each counts half. Signs do not cancel."""
    capped = Combined(Fixed(weights={"step": 2.0}), caps={"step": 1.0})
    assert capped.weights_for(episode({}, *[{"step": 0.5}] * 4)) == {"step": 1.0}
    assert capped.weights_for(episode({}, {"step": 3.0}, {"step": -1.0})) == {"step": 0.5}
    assert capped.weights_for(episode({}, {"step": 0.5})) == {"step": 2.0}


@given(values=st.lists(st.floats(-10, 10), min_size=1, max_size=8), cap=st.floats(0, 20))
def test_no_episode_is_ever_paid_more_than_the_cap(values, cap):
    capped = episode({}, *[{"step": value} for value in values])
    capped.weights = Combined(Fixed(), caps={"step": cap}).weights_for(capped)
    assert abs(capped.return_from()) <= cap + 1e-9


def test_gates_of_a_part_hold_inside_a_combination():
    inner = Combined(Fixed(weights={"step": 0.5}), gates=[Gate("success", 1.0, opens=("step",))])
    outer = Combined(inner, Fixed(outcome={"success": 1.0}), schedules={"step": Schedule(0.5, 0.5)})
    assert outer.weights_for(episode({"success": 1.0}, {"step": 1.0}))["step"] == 0.25
    assert outer.weights_for(episode({"success": 0.0}, {"step": 1.0}))["step"] == 0.0


async def test_only_parts_that_judge_a_group_are_asked_and_names_may_not_clash():
    class Seen(Fixed):
        def group(self, episodes):
            return [{"seen": float(len(episodes))} for _ in episodes]

    both = Combined(Fixed(outcome={"success": 1.0}), Seen())
    assert both.has_stage("group")
    assert not both.has_stage("hindsight")
    assert not Combined(Fixed()).has_stage("group")
    assert await both.group([episode(), episode()]) == [{"seen": 2.0}] * 2
    with pytest.raises(RewardError, match="both return the component"):
        await Combined(Seen(), Seen()).group([episode()])


@pytest.mark.parametrize(
    "broken",
    [
        lambda: Schedule(math.nan, 0.0),
        lambda: Schedule(0.0, 1.0, begin=0.7, finish=0.2),
        lambda: Schedule(0.0, 1.0, shape="zigzag"),
        lambda: Gate("", 0.0),
        lambda: Gate("success", math.inf),
        lambda: Gate("success", 1.0, opens=("success",)),
        lambda: Combined(caps={"step": -1.0}),
    ],
)
def test_schedules_gates_and_caps_that_make_no_sense_are_refused(broken):
    with pytest.raises(ValueError, match=r"needs|is "):
        broken()


@pytest.mark.parametrize("error", [HostOverloaded("busy"), SandboxDied("gone")])
async def test_an_overloaded_machine_is_never_the_submissions_failure(error):
    """What else ends both attempts to judge a submission, and not a control, is the submission's."""

    async def attempt() -> bool:
        raise error

    async def control() -> None: ...

    if isinstance(error, HostOverloaded):
        with pytest.raises(HostOverloaded):
            await judge_submission(attempt, control, False)
    else:
        assert await judge_submission(attempt, control, False) is False


async def test_a_submission_is_tried_once_more_after_a_control_that_works():
    """A machine that ended two sandboxes in a row says nothing about the submission."""
    ends = [SandboxDied("killed"), SandboxDied("killed")]

    async def attempt():
        if ends:
            raise ends.pop()
        return True

    async def control():
        assert not ends, "after two attempts"

    assert await judge_submission(attempt, control, False) is True
