"""How a group is built and what it refuses, each time naming the trajectory, the turn and the field."""

from __future__ import annotations

import math

import numpy as np
import pytest
from credit_cases import a_trajectory, a_turn

from agentgym import Task, Turn
from agentgym.credit import Group, estimator
from agentgym.errors import CreditError, MissingSignalError, ShapeError
from agentgym.messages import Call, Message, StopReason


def test_rows_of_unequal_length_are_padded_with_nan():
    group = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0.5, None, 0.25], [1]])
    assert group.turns.tolist() == [3, 1]
    assert group.turn_mask.tolist() == [[True, True, True], [True, False, False]]
    np.testing.assert_array_equal(group.turn_rewards, [[0.5, math.nan, 0.25], [1, math.nan, math.nan]])
    assert group.valid.all()
    assert not group.truncated.any()


def test_numpy_arrays_and_ragged_lists_are_both_accepted():
    group = Group.from_arrays(outcomes=np.array([1.0, 0.0]), turn_rewards=np.array([[0.5, 0.0], [1.0, 2.0]]))
    assert group.turns.tolist() == [2, 2]


def test_without_any_per_turn_signal_every_trajectory_has_one_turn():
    assert Group.from_arrays(outcomes=[1, 0, 0]).turns.tolist() == [1, 1, 1]
    assert Group.from_arrays(outcomes=[1, 0, 0], turns=[3, 1, 2]).turns.tolist() == [3, 1, 2]


def test_every_signal_is_carried():
    group = Group.from_arrays(
        outcomes=[1, 0],
        turn_rewards=[[0, 1], [0]],
        valid=[True, True],
        truncated=[False, True],
        state_keys=[["a", "b"], ["a"]],
        values=[[0.1, 0.2, 0.0], [0.1]],
        potentials=[[0, 1], [0]],
        branches=[["n0", "n1"], ["n0"]],
        tool_turn=[[True, False], [False]],
    )
    assert group.state_keys == (("a", "b"), ("a",))
    np.testing.assert_array_equal(group.values, [[0.1, 0.2, 0.0], [0.1, math.nan, math.nan]])
    np.testing.assert_array_equal(group.potentials, [[0, 1], [0, math.nan]])
    assert group.branches == (("n0", "n1"), ("n0",))
    assert group.tool_turn.tolist() == [[True, False], [False, False]]
    assert group.truncated.tolist() == [False, True]


def test_select_keeps_the_chosen_rows_and_cuts_the_padding():
    group = Group.from_arrays(
        outcomes=[1, 0, 2], turn_rewards=[[1, 2, 3], [4], [5, 6]], state_keys=[["a", "b", "c"], ["d"], ["e", "f"]]
    )
    selected = group.select(np.array([False, True, True]))
    assert selected.turns.tolist() == [1, 2]
    np.testing.assert_array_equal(selected.turn_rewards, [[4, math.nan], [5, 6]])
    assert selected.state_keys == (("d",), ("e", "f"))


@pytest.mark.parametrize(
    ("arrays", "error", "says"),
    [
        ({"outcomes": []}, CreditError, "at least one trajectory"),
        ({}, CreditError, "at least one trajectory"),
        ({"outcomes": [1, math.nan]}, CreditError, "outcomes of trajectory 1 must be .* not nan"),
        ({"outcomes": [1, None]}, CreditError, "outcomes of trajectory 1 must be .* not nan"),
        ({"outcomes": [-math.inf, 0]}, CreditError, "outcomes of trajectory 0 must be .* not -inf"),
        ({"outcomes": [1, "high"]}, CreditError, "outcomes of trajectory 1 must be .* not 'high'"),
        ({"outcomes": [1, 0], "turn_rewards": [[1]]}, ShapeError, "turn_rewards has 1 entries for a group of 2"),
        ({"outcomes": [1, 0], "turn_rewards": [[1], 3]}, ShapeError, "turn_rewards of trajectory 1 must be .* not 3"),
        (
            {"outcomes": [1], "turn_rewards": [[1, math.inf]]},
            CreditError,
            "trajectory 0, turn 1 must be a finite number, not inf",
        ),
        (
            {"outcomes": [1], "turn_rewards": [[0, "x"]]},
            CreditError,
            "turn_rewards of trajectory 0, turn 1 must be .* not 'x'",
        ),
        ({"outcomes": [1], "turn_rewards": [[0], [1]]}, ShapeError, "turn_rewards has 2 entries for a group of 1"),
        ({"outcomes": [1, 0], "valid": [True]}, ShapeError, "valid has 1 entries"),
        (
            {"outcomes": [1, 0], "valid": [True, "no"]},
            CreditError,
            "valid of trajectory 1 must be True or False, not 'no'",
        ),
        (
            {"outcomes": [1, 0], "truncated": [0, 2]},
            CreditError,
            "truncated of trajectory 1 must be True or False, not 2",
        ),
        ({"outcomes": [1], "turn_rewards": [[0, 0]], "values": [[1]]}, ShapeError, "values of trajectory 0 has 1"),
        (
            {"outcomes": [1], "turn_rewards": [[0]], "values": [[1, math.inf]]},
            CreditError,
            "values of trajectory 0, turn 1",
        ),
        ({"outcomes": [1], "turn_rewards": [[0, 0]], "state_keys": [["a"]]}, ShapeError, "state_keys of trajectory 0"),
        ({"outcomes": [1], "state_keys": [[["a"]]]}, CreditError, "state_keys of trajectory 0, turn 0"),
        ({"outcomes": [1], "state_keys": ["abc"]}, ShapeError, "state_keys of trajectory 0 must be .* not 'abc'"),
        ({"outcomes": [1, 0], "turn_rewards": [[1], []]}, CreditError, "Trajectory 1 is marked valid but has no turn"),
        ({"outcomes": [1], "turns": [1.5]}, CreditError, "turns of trajectory 0 is 1.5"),
        ({"outcomes": [1, 0], "turns": [1]}, ShapeError, "turns has 1 entries, but outcomes has 2"),
        ({"outcomes": [1], "turn_rewards": [[0]], "turns": [2]}, ShapeError, "turn_rewards of trajectory 0 has 1"),
    ],
)
def test_a_signal_that_makes_no_sense_is_named(arrays, error, says):
    with pytest.raises(error, match=says.replace("(", r"\(")):
        Group.from_arrays(**arrays)


def test_a_failed_trajectory_may_have_no_outcome_and_no_turn():
    """Its numbers are not looked at, whatever they are: the machine broke in the middle of them."""
    group = Group.from_arrays(
        outcomes=[1, math.nan, None], turn_rewards=[[0], [math.inf, 1], []], valid=[True, False, False]
    )
    assert group.turns.tolist() == [1, 2, 0]


def test_the_error_for_a_missing_signal_lists_the_carried_ones_and_a_remedy():
    group = Group.from_arrays(turn_rewards=[[1, 2], [3]])
    with pytest.raises(MissingSignalError, match=r"has no signal outcomes. It has: turn_rewards.*outcome` method"):
        estimator("rloo")(group)
    with pytest.raises(MissingSignalError, match=r"has no signal turn_rewards. It has: outcomes"):
        estimator("mt_grpo")(Group.from_arrays(outcomes=[1, 0]))


def test_trajectories_become_a_group():
    group = Group.from_trajectories(
        [
            a_trajectory(a_turn(0, {"found": 0.5}, state_key="a"), a_turn(1, state_key="b"), weights={"found": 2.0}),
            a_trajectory(
                a_turn(0, state_key="a"), outcome={"success": 0.0, "style": 0.25}, stop_reason=StopReason.MAX_TURNS
            ),
            a_trajectory(outcome={}, stop_reason=StopReason.INFRA_ERROR),
        ]
    )
    assert group.turns.tolist() == [2, 1, 0]
    np.testing.assert_array_equal(group.outcomes, [1.0, 0.25, math.nan])
    np.testing.assert_array_equal(group.turn_rewards, [[1.0, math.nan], [math.nan] * 2, [math.nan] * 2])
    assert group.valid.tolist() == [True, True, False]
    assert group.truncated.tolist() == [False, True, False]
    assert group.state_keys == (("a", "b"), ("a",), ())
    assert group.tool_turn.tolist() == [[True, True], [True, False], [False, False]]
    assert group.values is None


def test_components_give_the_rewards_where_a_gate_or_a_cap_lowers_a_weight():
    open_gate, shut = {"style": 0.5, "found": 2.0}, {"style": 0.5, "found": 1.0, "success": 0.0}
    group = Group.from_trajectories(
        [
            a_trajectory(a_turn(0, {"found": 3.0}), outcome={"success": 1.0, "style": 1.0}, weights=open_gate),
            a_trajectory(a_turn(0, {"found": 3.0}), outcome={"success": 1.0, "style": 1.0}, weights=shut),
            a_trajectory(outcome={}, stop_reason=StopReason.INFRA_ERROR),
        ]
    )
    assert group.weights == {"style": 0.5, "found": 2.0, "success": 1.0}
    np.testing.assert_array_equal(group.outcomes[:2], [1.5, 0.5])
    np.testing.assert_array_equal(group.turn_rewards[:2], [[6.0], [3.0]])
    for total, parts in ((group.outcomes, group.outcome_components), (group.turn_rewards, group.components)):
        given = sum(group.weights[name] * part for name, part in parts.items())
        np.testing.assert_array_equal(given[:2], total[:2])


def test_a_turn_whose_calls_were_all_broken_is_no_tool_turn():
    broken = Call("", error="That is not JSON.")
    void = Turn(0, Message("assistant", "hm", calls=(broken,)), calls=(broken,))
    group = Group.from_trajectories([a_trajectory(void), a_trajectory(a_turn(0))])
    assert group.tool_turn.tolist() == [[False], [True]]


def test_a_state_key_that_one_turn_lacks_is_not_carried():
    group = Group.from_trajectories([a_trajectory(a_turn(0, state_key="a"), a_turn(1))])
    assert group.state_keys is None


def test_trajectories_of_two_tasks_are_no_group():
    other = Task("t-2", "acme/counter-v1", prompt="Count on.")
    with pytest.raises(CreditError, match="'run/t-2#0' is of task 't-2', but its group is of task 't-1'"):
        Group.from_trajectories([a_trajectory(a_turn(0)), a_trajectory(a_turn(0), id="run/t-2#0", task=other)])


def test_a_valid_trajectory_that_was_not_scored_is_named():
    with pytest.raises(CreditError, match="'run/t-1#7' has no outcome component"):
        Group.from_trajectories([a_trajectory(a_turn(0)), a_trajectory(a_turn(0), outcome={}, id="run/t-1#7")])
    with pytest.raises(CreditError, match="The group is empty"):
        Group.from_trajectories([])


def test_an_episode_that_still_runs_is_not_valid():
    group = Group.from_trajectories([a_trajectory(a_turn(0)), a_trajectory(a_turn(0), stop_reason=None)])
    assert group.valid.tolist() == [True, False]
    assert group.truncated.tolist() == [False, False]
