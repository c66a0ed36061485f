"""Off-policy weights by hand, and that the three levels agree where they must."""

from __future__ import annotations

import math

import numpy as np
import pytest
from credit_cases import ROWS, expect, few, group_of, identical
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import Group, estimator
from agentgym.credit.wrappers.off_policy import mean_turn_weights, ratio_weights

LN2 = math.log(2)
# Turn ratios 2, 4 | 1/4; of the whole sequences 8 | 1/4. rloo gives 1 and -1.
GROUP = Group.from_arrays(outcomes=[1, 0], log_ratios=[[[LN2 / 2, LN2 / 2], [2 * LN2]], [[-2 * LN2]]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("mode='tis', over='sum'", [[2, 2], [-0.25]]),
        ("mode='mis', over='sum'", [[2, 0], [-0.25]]),
        ("mode='icepop', over='sum'", [[2, 0], [0]]),
        ("mode='icepop', low=0.25, high=4.0, over='sum'", [[2, 4], [-0.25]]),
        ("mode='tis', level='sequence', high=9.0, over='sum'", [[8, 8], [-0.25]]),
        ("mode='mis', level='sequence', over='sum'", [[0, 0], [-0.25]]),
        ("mode='tis', level='sequence', over='mean'", [[2, 2], [-0.25]]),
        ("mode='tis'", [[math.sqrt(2), 2], [-0.25]]),
        ("mode='none'", [[1, 1], [-1]]),
        ("mode='tis', level='token'", [[math.sqrt(2), 2], [-0.25]]),
        ("mode='mis', level='token', high=1.5", [[math.sqrt(2), 0], [-0.25]]),
    ],
)
def test_a_turn_counts_by_its_ratio(options, expected):
    """2 * 1, 4 cut to 2 or dropped; the mean of 3 tokens of a sequence is 2."""
    expect(estimator(f"rloo | off_policy({options})")(GROUP), expected)


def test_by_default_a_long_turn_of_nearly_equal_policies_keeps_its_weight():
    """200 tokens, on each of which two engines disagree by 0.014 nats: e^-2.8 = 0.06 as a product, 0.99 as a mean."""
    group = Group.from_arrays(outcomes=[1, 0], log_ratios=[[[-0.014] * 200], [[-0.014] * 200]])
    expect(estimator("rloo | off_policy(over='sum')")(group), [[math.exp(-2.8)], [-math.exp(-2.8)]])
    expect(estimator("rloo | off_policy")(group), [[math.exp(-0.014)], [-math.exp(-0.014)]])
    assert math.exp(-2.8) == pytest.approx(0.06, abs=0.001)
    assert estimator("rloo").bias == "unbiased"
    assert estimator("rloo | off_policy").bias == "biased"


def test_turns_are_cut_by_age_without_a_second_pass_of_the_policy():
    chosen = estimator("rloo | off_policy(mode='none', max_lag=1)")
    assert "log_ratios" not in chosen.requires
    group = Group.from_arrays(outcomes=[1, 0], turns=[2, 1], versions=[[4, 6], [7]], train_version=7)
    expect(chosen(group), [[0, 1], [-1]])


def test_turns_that_are_too_old_are_cut_one_by_one():
    """The newest of the group is 7: more than 2 behind is below 5. Against the trained version 9: below 7."""
    aged = GROUP.with_signals(versions=[[4, 5], [7]], log_ratios=[[[0], [0]], [[0]]])
    expect(estimator("rloo | off_policy(max_lag=2)")(aged), [[0, 1], [-1]])
    trained = Group.from_arrays(
        outcomes=[1, 0], log_ratios=[[[0], [0]], [[0]]], versions=[[4, 5], [7]], train_version=9
    )
    expect(estimator("rloo | off_policy(max_lag=2)")(trained), [[0, 0], [-1]])
    expect(estimator("rloo | off_policy(max_lag=0)")(aged), [[0, 0], [-1]])


@few
@given(rows=ROWS, tokens=st.integers(1, 3))
def test_on_policy_nothing_changes_bit_for_bit(rows, tokens):
    """P6."""
    group = group_of(rows, log_ratios=[[[0.0] * tokens for _ in r] for _, r in rows])
    for level in ("turn", "token", "sequence"):
        for mode in ("tis", "mis", "icepop"):
            chosen = estimator(f"return_to_go | off_policy(mode='{mode}', level='{level}')")
            identical(chosen(group), estimator("return_to_go")(group))


RATIOS = st.floats(-3, 3)
MODES = st.sampled_from(["tis", "mis", "icepop"])


@few
@given(ratios=st.lists(st.lists(RATIOS, min_size=1, max_size=4), min_size=1, max_size=4), mode=MODES)
def test_turns_of_one_token_weigh_alike_at_token_and_turn(ratios, mode):
    logs = np.array([[[x] for x in row] + [[math.nan]] * (4 - len(row)) for row in ratios])
    weights = [ratio_weights(logs, mode=mode, level=level) for level in ("token", "turn")]
    np.testing.assert_array_equal(weights[0], weights[1])


@few
@given(
    ratios=st.lists(st.lists(RATIOS, min_size=1, max_size=4), min_size=1, max_size=4),
    mode=MODES,
    over=st.sampled_from(["sum", "mean"]),
)
def test_trajectories_of_one_turn_weigh_alike_at_turn_and_sequence(ratios, mode, over):
    logs = np.array([[row + [math.nan] * (4 - len(row))] for row in ratios])
    weights = [ratio_weights(logs, mode=mode, level=level, over=over) for level in ("turn", "sequence")]
    np.testing.assert_array_equal(weights[0], weights[1])


@few
@given(ratios=st.lists(st.lists(RATIOS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_uncapped_turn_ratios_multiply_to_that_of_the_sequence(ratios):
    logs = np.array([[[x] for x in row] + [[math.nan]] * (4 - len(row)) for row in ratios])
    turns = ratio_weights(logs, mode="tis", level="turn", high=1e300)
    of_sequence = ratio_weights(logs, mode="tis", level="sequence", high=1e300)
    for i, row in enumerate(ratios):
        np.testing.assert_allclose(turns[i, : len(row), 0].prod(), of_sequence[i, 0, 0], rtol=1e-12)


def test_a_turn_gets_the_mean_of_its_tokens_weights():
    logs = np.array([[[LN2, 0.0, math.nan], [math.nan] * 3]])
    weights = ratio_weights(logs, mode="tis", level="token")
    np.testing.assert_array_equal(weights, [[[2, 1, 1], [1, 1, 1]]])
    np.testing.assert_array_equal(mean_turn_weights(weights, logs), [[1.5, 1]])


def test_a_ratio_that_cannot_be_written_down_is_above_every_cap():
    logs = np.array([[[800.0, 900.0]]])
    for level in ("turn", "token", "sequence"):
        assert ratio_weights(logs, mode="tis", level=level).max() == 2.0
        assert ratio_weights(logs, mode="mis", level=level).max() == 0.0
        assert ratio_weights(-logs, mode="icepop", level=level).max() == 0.0
