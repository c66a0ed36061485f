"""The signals that come from critics, replays and policies: how they are stored, cut, and refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from credit_cases import a_trajectory, a_turn

from agentgym.credit import Group
from agentgym.errors import CreditError, MissingSignalError, ShapeError
from agentgym.messages import StopReason

FULL = {
    "outcomes": [1, 0],
    "turn_rewards": [[0, 1], [0]],
    "components": {"found": [[0.5, None], [1]], "tidy": [[0, 0], [-1]]},
    "outcome_components": {"success": [1, 0]},
    "branches": [["a", "b"], ["a"]],
    "parents": ["root", "root"],
    "policies": [["planner", "doer"], ["planner"]],
    "action_values": [[0.5, 0.75], [0.25]],
    "token_values": [[[0.1, 0.2], [0.3]], [[0.4]]],
    "gold_logprobs": [[-2, -1, -0.5], [-2]],
    "contributions": [[0.5, 0.5], [0]],
    "hindsight": [[0.1, -0.1], [0]],
    "counterfactuals": [{(): 0, (0,): 0.5, (1,): 0, (0, 1): 1}, {(): 0, (0,): 0}],
    "continuations": [[[0, 1], [1], [1]], [[0, 0, 1]]],
    "lengths": [[7, 3], [4]],
    "entropies": [[0.5, 0.25], [1]],
    "versions": [[3, 4], [3]],
    "log_ratios": [[[0.1, -0.1], [0.2, 0.2, 0.2]], [[0]]],
}


def test_every_signal_is_stored_padded_with_nan():
    group = Group.from_arrays(**FULL)
    np.testing.assert_array_equal(group.components["found"], [[0.5, math.nan], [1, math.nan]])
    np.testing.assert_array_equal(group.outcome_components["success"], [1, 0])
    np.testing.assert_array_equal(group.gold_logprobs, [[-2, -1, -0.5], [-2, math.nan, math.nan]])
    assert group.token_values.shape == (2, 2, 2)
    np.testing.assert_array_equal(group.token_values[0, 1], [0.3, math.nan])
    assert group.continuations.shape == (2, 3, 3)
    np.testing.assert_array_equal(group.continuations[0, 0], [0, 1, math.nan])
    assert np.isnan(group.continuations[1, 1]).all()
    assert group.log_ratios[0, 1].tolist() == [0.2, 0.2, 0.2]
    assert group.counterfactuals[0][frozenset({0})] == 0.5
    assert group.lengths[0].tolist() == [7, 3]
    assert group.parents == ("root", "root")
    assert group.policies[0] == ("planner", "doer")


def test_a_part_of_a_group_carries_its_part_of_every_signal():
    part = Group.from_arrays(**FULL).select(np.array([False, True]))
    assert part.turns.tolist() == [1]
    assert part.components["tidy"].tolist() == [[-1]]
    assert part.gold_logprobs.shape == (1, 2)
    assert part.continuations.shape == (1, 2, 3)
    assert part.token_values.shape == (1, 1, 2)
    assert part.counterfactuals == ({frozenset(): 0, frozenset({0}): 0},)
    assert part.branches == (("a",),)
    assert part.parents == ("root",)


def test_turns_can_be_counted_in_named_components():
    assert Group.from_arrays(components={"found": [[1, 2], [3]]}).turns.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("arrays", "error", "says"),
    [
        ({"lengths": [[3, -1], [2]]}, CreditError, "lengths of trajectory 0, turn 1 must be at least 0, not -1.0"),
        (
            {"gold_logprobs": [[-1, 0.5], [0]]},
            CreditError,
            "gold_logprobs of trajectory 0, turn 1 must be at most 0, not 0.5",
        ),
        ({"entropies": [[0, None], [0]]}, CreditError, "entropies of trajectory 0, turn 1 must be .* not nan"),
        ({"components": [[1], [2]]}, CreditError, "components must be a mapping .* not a list"),
        (
            {"components": {"found": [[0, math.inf], [0]]}},
            CreditError,
            r"components\['found'\] of trajectory 0, turn 1 must be a finite number, not inf",
        ),
        ({"components": {"found": [[0, 1]]}}, ShapeError, r"components\['found'\] has 1 entries for a group of 2"),
        (
            {"outcome_components": {"won": [1, None]}},
            CreditError,
            r"outcome_components\['won'\] of trajectory 1 must be a finite number, not nan",
        ),
        (
            {"log_ratios": [[0.1, 0.2], [0.3]]},
            CreditError,
            "log_ratios of trajectory 0, turn 0 must be a list of numbers, not 0.1",
        ),
        ({"log_ratios": [[[0.1], ["x"]], [[0]]]}, CreditError, "log_ratios of trajectory 0, turn 1 must be .* not 'x'"),
        (
            {"log_ratios": [[[0.1], [math.inf]], [[0]]]},
            CreditError,
            "log_ratios of trajectory 0, turn 1 must be .* not inf",
        ),
        ({"log_ratios": [[[0.1]], [[0]]]}, ShapeError, "log_ratios of trajectory 0 has 1 entries, but .* 2 turns"),
        ({"continuations": [[[0]], [[0]]]}, ShapeError, "continuations of trajectory 0 has 1 entries"),
        (
            {"counterfactuals": [{(2,): 1}, {}]},
            CreditError,
            r"trajectory 0 has the key \(2,\), which is not a set of turns from 0 to 1",
        ),
        (
            {"counterfactuals": [{(0,): math.nan}, {}]},
            CreditError,
            r"trajectory 0, turns \[0\] must be a finite number, not nan",
        ),
        ({"counterfactuals": [{}]}, ShapeError, "counterfactuals has 1 entries for a group of 2"),
        ({"counterfactuals": [[1, 2], [3]]}, CreditError, "counterfactuals of trajectory 0 must be a mapping"),
        ({"parents": ["a"]}, ShapeError, "parents has 1 entries for a group of 2"),
        ({"parents": [["a"], None]}, CreditError, "parents of trajectory 0 must be hashable"),
        (
            {"branches": [["a", "b"], ["b"]]},
            CreditError,
            "branches of trajectory 1, turn 0 is 'b', which comes after None here, but after 'a' in an earlier",
        ),
        (
            {"branches": [["a", "a"], ["c"]]},
            CreditError,
            "branches of trajectory 0, turn 1 is 'a', which comes after 'a'",
        ),
        ({"state_key": [["a", "b"], ["c"]]}, CreditError, "no signal 'state_key'. Did you mean 'state_keys'?"),
    ],
)
def test_a_signal_that_makes_no_sense_is_named_with_its_trajectory_and_turn(arrays, error, says):
    with pytest.raises(error, match=says):
        Group.from_arrays(**{"turns": [2, 1], **arrays})


def test_signals_of_a_failed_trajectory_are_not_checked():
    group = Group.from_arrays(
        outcomes=[1, None],
        turns=[2, 1],
        valid=[True, False],
        branches=[["a", "b"], ["b"]],
        gold_logprobs=[[-1, -1], [7]],
        counterfactuals=[{}, {(0,): math.nan}],
    )
    assert group.valid.tolist() == [True, False]


def test_signals_are_added_to_a_group_that_is_there():
    group = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0, 1], [0]], truncated=[0, 1], environment="sql-v1")
    more = group.with_signals(values=[[0.5, 0.5], [0.1]], turn_rewards=[[2, 2], [2]])
    assert more.environment == "sql-v1"
    assert more.truncated.tolist() == [False, True]
    assert more.outcomes.tolist() == [1, 0]
    assert more.turn_rewards[0].tolist() == [2, 2]
    assert more.values[0].tolist()[:2] == [0.5, 0.5]
    assert group.values is None
    with pytest.raises(ShapeError, match="values of trajectory 0 has 1"):
        group.with_signals(values=[[0.5], [0.1]])
    with pytest.raises(CreditError, match="which comes after"):
        group.with_signals(branches=[["a", "b"], ["b"]])


def test_the_error_for_a_missing_signal_names_its_remedy():
    with pytest.raises(MissingSignalError, match=r"has no signal gold_logprobs.*teacher forcing"):
        Group.from_arrays(outcomes=[1]).signal("gold_logprobs")


def test_trajectories_carry_named_components_lengths_and_versions():
    group = Group.from_trajectories(
        [
            a_trajectory(
                a_turn(0, {"found": 0.5}, token_ids=[1, 2, 3], policy_version=4),
                a_turn(1, {"tidy": 1.0}, token_ids=[1], policy_version=5),
                weights={"found": 2.0},
                outcome={"success": 1.0, "bonus": 0.5},
            ),
            a_trajectory(a_turn(0, token_ids=[9, 9])),
            a_trajectory(outcome={}, stop_reason=StopReason.INFRA_ERROR),
        ]
    )
    assert group.environment == "acme/counter-v1"
    assert group.weights == {"found": 2.0}
    np.testing.assert_array_equal(group.components["found"], [[0.5, math.nan], [math.nan] * 2, [math.nan] * 2])
    np.testing.assert_array_equal(group.components["tidy"][0], [math.nan, 1.0])
    np.testing.assert_array_equal(group.outcome_components["bonus"], [0.5, 0.0, 0.0])
    np.testing.assert_array_equal(group.lengths, [[3, 1], [2, math.nan], [math.nan] * 2])
    np.testing.assert_array_equal(group.versions, [[4, 5], [0, math.nan], [math.nan] * 2])
