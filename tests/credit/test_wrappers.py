"""What each wrapper does to an estimator: worked examples, and when it does nothing at all.

The group of `test_estimators_by_hand`: outcomes 1, 0, 0, turn rewards [0.5, 0], [0], [none, 0.2, 0.1].
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from credit_cases import GROUP, NONE, ROWS, expect, few, group_of, identical
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import Group, estimator
from agentgym.errors import CreditError, MissingSignalError
from agentgym.messages import StopReason
from agentgym.methods.credit.wrappers.calibrated import calibration

# gated --------------------------------------------------------------------------------------------------------------


def test_turn_rewards_count_behind_the_gate_of_the_outcome():
    """Only the first passes: returns 1.5, 0, 0. 1.5 - 0; 0 - 0.75."""
    expect(estimator("rloo | gated(threshold=1.0)")(GROUP), [[1.5, 1.5], [-0.75], [-0.75] * 3])


def test_a_gate_is_open_at_its_threshold():
    """>=: at 0 all pass, at 1 the first still does, above it nobody, and the outcome is left."""
    identical(estimator("rloo | gated(threshold=0.0, paid='turns')")(GROUP), estimator("rloo")(GROUP))
    identical(estimator("rloo | gated(threshold=1.5)")(GROUP), estimator("rloo", turn_weight=0.0)(GROUP))


def test_gated_rewards_are_paid_at_the_end_or_on_their_turns():
    """At the end: to go 1.5, 1.5 | 0 | 0, 0, 0; turn 1: 1.5 - 0. In place: 1.5, 1.0, and turn 1: 1.0 - 0."""
    expect(estimator("return_to_go | gated")(GROUP)[:1], [[1.5, 1.5]])
    expect(estimator("return_to_go | gated(paid='turns')")(GROUP)[:1], [[1.5, 1.0]])


LEVELS = GROUP.with_signals(
    components={"found": [[0.5, 0], [0], [NONE, 0.2, 0.1]]},
    outcome_components={"success": [1, 0, 0], "style": [0.2, 0.4, 0.6]},
)


def test_levels_are_passed_one_after_the_other():
    """The first succeeds, so its style 0.2 counts; style is below 0.3, so what it found does not. The others fail.

    Returns 1.2, 0, 0. With style from 0.2 on it does: 1.7, 0, 0.
    """
    strict = estimator("rloo | gated(levels={'success': 1.0, 'style': 0.3, 'found': 0.0})")
    expect(strict(LEVELS), [[1.2, 1.2], [-0.6], [-0.6] * 3])
    lenient = estimator("rloo | gated(levels={'success': 1.0, 'style': 0.2, 'found': 0.0})")
    expect(lenient(LEVELS), [[1.7, 1.7], [-0.85], [-0.85] * 3])


def test_a_component_of_turns_can_be_a_gate_by_its_sum():
    """found sums to 0.5, 0, 0.3: from 0.3 on, the first and the third may count their style: 0.7, 0, 0.9."""
    chosen = estimator("dr_grpo | gated(levels={'found': 0.3, 'style': 0.0})")
    expect(chosen(LEVELS), [[0.7 - 1.6 / 3] * 2, [-1.6 / 3], [0.9 - 1.6 / 3] * 3])


def test_a_level_that_is_no_component_is_named():
    with pytest.raises(CreditError, match=r"level 'sucess' is not a component.*components are: success, style, found"):
        estimator("rloo | gated(levels={'sucess': 1.0})")(LEVELS)


@few
@given(rows=ROWS, other=st.integers(-64, 64).map(lambda n: n / 64))
def test_a_closed_gate_hides_what_is_behind_it(rows, other):
    """P16: below the threshold turn rewards can be anything."""
    changed = [(o, [other] * len(r) if o < 0.5 else r) for o, r in rows]
    chosen = estimator("return_to_go | gated(threshold=0.5)")
    identical(chosen(group_of(rows)), chosen(group_of(changed)))


@few
@given(rows=ROWS)
def test_with_all_gates_open_nothing_is_gated(rows):
    """P16: whole returns as they were; paid where they were earned, everything as it was."""
    group = group_of(rows)
    for base in ("return_to_go", "mt_grpo", "grpo"):
        identical(estimator(f"{base} | gated(threshold=-9.0, paid='turns')")(group), estimator(base)(group))
    identical(estimator("rloo | gated(threshold=-9.0)")(group), estimator("rloo")(group))


@few
@given(rows=ROWS, who=st.integers(0, 5), gain=st.integers(1, 64).map(lambda n: n / 16))
def test_with_gates_as_they_are_a_better_reward_never_lowers_the_own_advantage(rows, who, gain):
    """P16: monotone at fixed gates."""
    who %= len(rows)
    better = [(o, [x + gain for x in r]) if i == who else (o, r) for i, (o, r) in enumerate(rows)]
    chosen = estimator("rloo | gated(threshold=0.5)")
    assert chosen(group_of(better))[who][0] >= chosen(group_of(rows))[who][0] - 1e-12


# masked -------------------------------------------------------------------------------------------------------------

STOPPED = GROUP.with_signals(
    stop_reasons=[StopReason.ANSWERED, StopReason.MAX_TURNS, StopReason.MAX_TOKENS],
    tool_turn=[[True, False], [True], [True, False, True]],
)


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        ("over_turn=True", [True, False, True]),
        ("overlong=True", [True, True, False]),
        ("void_turn=True", [True, True, False]),  # the first ends with its answer, which is no void turn
        ("over_turn=True, overlong=True", [True, False, False]),
    ],
)
def test_a_masked_trajectory_is_not_trained_on_but_stays_in_the_baselines(options, selected):
    base = [[1.35, 1.35], [-0.9], [-0.45] * 3]
    expected = [row if keep else [0.0] * len(row) for row, keep in zip(base, selected, strict=True)]
    expect(estimator(f"rloo | masked({options})")(STOPPED), expected)


def test_a_masked_trajectory_can_be_left_out_of_the_statistics():
    """The first and the third alone: 1.5 - 0.3 = 1.2. With one left there is nothing to compare: 0."""
    expect(estimator("rloo | masked(over_turn=True, statistics='dropped')")(STOPPED), [[1.2] * 2, [0], [-1.2] * 3])
    alone = estimator("rloo | masked(over_turn=True, overlong=True, statistics='dropped')")(STOPPED)
    expect(alone, [[0] * 2, [0], [0] * 3])


def test_a_last_turn_without_a_call_is_void_unless_it_is_the_answer():
    cut = STOPPED.with_signals(stop_reasons=[StopReason.TIME, StopReason.ANSWERED, StopReason.ANSWERED])
    actual = estimator("rloo | masked(void_turn=True)")(cut)
    assert [bool(a.any()) for a in actual] == [False, True, False]


def test_with_nothing_set_masked_masks_nothing_and_asks_for_nothing():
    chosen = estimator("return_to_go | masked")
    identical(chosen(GROUP), estimator("return_to_go")(GROUP))
    assert chosen.bias == "unbiased"
    with pytest.raises(MissingSignalError, match="no signal stop_reasons"):
        estimator("return_to_go | masked(overlong=True)")(GROUP)


# truncation ---------------------------------------------------------------------------------------------------------


def test_long_episodes_lose_a_part_of_their_outcome():
    """Own tokens 20, 60 and 120, limit 100, buffer 80: nothing, half, all of the penalty 1: returns 1.5, -0.5, -0.7."""
    long = GROUP.with_signals(lengths=[[10, 10], [60], [40, 40, 40]])
    actual = estimator("dr_grpo | truncation(limit_tokens=100, buffer_tokens=80)")(long)
    expect(actual, [[1.4] * 2, [-0.6], [-0.8] * 3])
    with pytest.raises(CreditError, match="buffer_tokens <= limit_tokens"):
        estimator("rloo | truncation(limit_tokens=10, buffer_tokens=80)")(long)


def test_truncated_episodes_get_the_predicted_value():
    """0.6 after the last turn of the second: returns 1 and 0.6."""
    cut = Group.from_arrays(outcomes=[1, 0], turns=[1, 1], truncated=[False, True], values=[[0.5, 9], [0.5, 0.6]])
    expect(estimator("rloo | truncation(mode='bootstrap')")(cut), [[0.4], [-0.4]])
    assert estimator("rloo | truncation(mode='bootstrap')").bias == "biased"


# rank_shaped --------------------------------------------------------------------------------------------------------


def ranked(rank, velocity, acceleration):
    return GROUP.with_signals(
        rank_deviations=rank, rank_velocity_deviations=velocity, rank_acceleration_deviations=acceleration
    )


def test_states_that_spread_more_than_usual_get_a_bonus():
    """tanh 0.2 = 0.19738. No acceleration: half of it. Much: all of it, the rank's. None below what is usual."""
    half = estimator("rloo | rank_shaped")(ranked([0.2, 0.0, -1.0], [0.0] * 3, [0.0] * 3))
    expect(half, [[1.35 + 0.09869] * 2, [-0.9], [-0.45] * 3], 1e-5)
    rank = estimator("rloo | rank_shaped(gain=100.0)")(ranked([0.2, 0.0, 0.0], [-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]))
    expect(rank, [[1.35 + 0.19738] * 2, [-0.9], [-0.45] * 3], 1e-5)
    velocity = estimator("rloo | rank_shaped(gain=100.0)")(ranked([9.0, 0, 0], [0.2, 0.0, 0.0], [-1.0, 0.0, 0.0]))
    expect(velocity, [[1.35 + 0.19738] * 2, [-0.9], [-0.45] * 3], 1e-5)


def test_a_falling_scale_multiplies_the_bonus():
    """tanh 0.2 x 0.5 x 0.25."""
    group = ranked([0.2, 0.0, -1.0], [0.0] * 3, [0.0] * 3).with_signals(rank_scales=[0.25] * 3)
    scaled = estimator("rloo | rank_shaped(scale='falling')")(group)
    expect(scaled, [[1.35 + 0.02467] * 2, [-0.9], [-0.45] * 3], 1e-5)


def test_a_bonus_of_states_never_turns_a_sign_and_is_off_without_a_weight():
    spread = ranked([5.0] * 3, [5.0] * 3, [0.0] * 3)
    expect(estimator("rloo | rank_shaped(weight=9.0)")(spread), [[2.025] * 2, [-0.45], [-0.225] * 3])
    identical(estimator("rloo | rank_shaped(weight=0.0)")(spread), estimator("rloo")(spread))


# self_certainty ------------------------------------------------------------------------------------------------------


def rationales(**signals):
    """Two episodes; spans on two of three tokens, on none of one, on one of two. One turn has no reward."""
    return Group.from_arrays(
        outcomes=[1.0, 0.0],
        turns=[2, 1],
        turn_rewards=[[0.5, NONE], [0.25]],
        lengths=[[3, 1], [2]],
        span_values=[[[NONE, 1.0, 1.0], []], [[-1.0, NONE]]],
        token_certainties=[[[9.0, 2.0, 4.0], [9.0]], [[1.0, 9.0]]],
        **signals,
    )


def test_a_turn_is_paid_the_mean_certainty_of_its_spans_and_nothing_for_other_tokens():
    """0.5 + 0.1 * (2 + 4) / 2 = 0.8 and 0.25 + 0.1 * 1 = 0.35; at the end 1 + 0.3 and 0 + 0.1."""
    group = rationales()
    of_turns = group.with_signals(turn_rewards=[[0.8, NONE], [0.35]])
    at_the_end = group.with_signals(outcomes=[1.3, 0.1])
    for name in ("rloo", "return_to_go"):
        expect(estimator(f"{name} | self_certainty")(group), [row.tolist() for row in estimator(name)(of_turns)])
        paid = estimator(f"{name} | self_certainty(paid='end')")(group)
        expect(paid, [row.tolist() for row in estimator(name)(at_the_end)])


def test_without_a_weight_or_a_span_certainty_pays_nothing():
    group = rationales()
    identical(estimator("rloo | self_certainty(weight=0.0)")(group), estimator("rloo")(group))
    bare = group.with_signals(span_values=[[[], []], [[]]])
    for paid in ("turns", "end"):
        identical(estimator(f"rloo | self_certainty(paid='{paid}')")(bare), estimator("rloo")(bare))
    assert estimator("rloo | self_certainty").bias == "heuristic"
    assert estimator("rloo | self_certainty(weight=0.0)").bias == estimator("rloo").bias


# difficulty_scaled --------------------------------------------------------------------------------------------------


def test_a_task_that_is_seldom_solved_counts_more():
    """Mean outcome 1/3, so w = 1 + 2/3; with the gap of 1 the same; a rate of 0.5 of the task halves it."""
    plain = estimator("rloo")(GROUP)
    for options, weight in (("", 5 / 3), ("strength=3.0", 3.0), ("gap=True", 5 / 3), ("strength=0.0", 1.0)):
        scaled = estimator(f"rloo | difficulty_scaled({options})")(GROUP)
        expect(scaled, [weight * advantages for advantages in plain])
    rated = GROUP.with_signals(outcome_components={"task_weight": [0.5, 0.5, 0.5]})
    expect(estimator("rloo | difficulty_scaled(component='task_weight')")(rated), [0.5 * a for a in plain])
    halved = Group.from_arrays(outcomes=[0.5, 0.25], turns=[1, 1])
    expect(estimator("rloo | difficulty_scaled(strength=0.0, gap=True)")(halved), [[0.0625], [-0.0625]])


def test_a_rate_that_no_outcome_has_is_named_with_those_there_are():
    rated = GROUP.with_signals(outcome_components={"success": [1, 0, 0]})
    with pytest.raises(CreditError, match=r"no outcome has the component 'rate'\. The components are: success"):
        estimator("rloo | difficulty_scaled(component='rate')")(rated)


def test_weights_by_what_the_episodes_did_are_declared_biased_and_a_rate_of_the_task_is_not():
    of = {text: estimator(f"rloo | difficulty_scaled({text})").bias for text in ("", "component='x'", "gap=True")}
    assert of == {"": "biased", "component='x'": estimator("rloo").bias, "gap=True": "biased"}


# entropy_weighted ---------------------------------------------------------------------------------------------------

UNSURE = GROUP.with_signals(entropies=[[0.5, 2.0], [1.0], [4.0, 0.0, 0.1]])


def test_an_unsure_turn_gets_a_bonus_that_never_turns_its_sign():
    """1.35 + 0.2 and 1.35 + min(0.8, 0.675); -0.9 + 0.4; -0.45 + min(1.6, 0.225), -0.45, -0.45 + 0.04."""
    actual = estimator("rloo | entropy_weighted")(UNSURE)
    expect(actual, [[1.55, 2.025], [-0.5], [-0.225, -0.45, -0.41]])


def test_only_the_least_sure_turns_are_trained_on():
    """A third of six turns: entropies 4 and 2."""
    actual = estimator("rloo | entropy_weighted(mode='top', share=0.3)")(UNSURE)
    expect(actual, [[0, 1.35], [0], [-0.45, 0, 0]])
    identical(estimator("rloo | entropy_weighted(mode='top', share=1.0)")(UNSURE), estimator("rloo")(UNSURE))
    identical(estimator("rloo | entropy_weighted(weight=0.0)")(UNSURE), estimator("rloo")(UNSURE))


@few
@given(rows=ROWS, entropy=st.floats(0, 50))
def test_the_bonus_keeps_every_sign(rows, entropy):
    """P15."""
    group = group_of(rows, entropies=[[entropy] * len(r) for _, r in rows])
    for actual, base in zip(estimator("rloo | entropy_weighted")(group), estimator("rloo")(group), strict=True):
        np.testing.assert_array_equal(np.sign(actual), np.sign(base))


# task_normalised ----------------------------------------------------------------------------------------------------


def test_every_environment_gets_the_same_spread():
    """Advantages +-1 and +-100 with mean 0 and spreads 1 and 100, up to the 1e-6."""
    small = Group.from_arrays(outcomes=[1, 0], environment="small")
    large = Group.from_arrays(outcomes=[100, 0], environment="large")
    same = Group.from_arrays(outcomes=[5, 5], environment="same")
    actual = estimator("rloo | task_normalised").batch([small, large, same, small])
    for credit, expected in zip(actual, ([1, -1], [1, -1], [0, 0], [1, -1]), strict=True):
        np.testing.assert_allclose(np.concatenate(credit.advantages), expected, atol=2e-6)


def test_around_grpo_it_is_agentrl():
    groups = [GROUP, Group.from_arrays(outcomes=[1, 1, 0, 0.5], turns=[1, 4, 2, 2])]
    for actual, expected in zip(
        estimator("grpo | task_normalised").batch(groups), estimator("agentrl").batch(groups), strict=True
    ):
        for a, b in zip(actual.advantages, expected.advantages, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_tokens_can_be_what_counts():
    """Advantages 1 (3 tokens) and -1 (1 token): mean 0.5, spread sqrt(3)/2: 1/sqrt(3) and -sqrt(3)."""
    group = Group.from_arrays(outcomes=[1, 0], lengths=[[3], [1]])
    actual = estimator("rloo | task_normalised(weigh='tokens')")(group)
    expect(actual, [[1 / math.sqrt(3)], [-math.sqrt(3)]], tolerance=5e-6)


# calibrated ---------------------------------------------------------------------------------------------------------


def validate_components(helpful, harmful, outcomes) -> Group:
    return Group.from_arrays(
        outcomes=outcomes, components={"helpful": helpful, "harmful": harmful, "constant": [[1.0]] * len(outcomes)}
    )


WINDOW = validate_components([[1], [1], [0], [0]], [[0], [0.25], [0.25], [0.5]], [1, 1, 0, 0])


def test_a_component_is_weighed_by_how_it_went_with_success():
    """helpful is success itself: 1. harmful: deviations -0.25, 0, 0, 0.25 against +-0.5: -0.25/(sqrt(0.125) * 1).

    A constant component says nothing: 0 (E18's invariant).
    """
    actual = calibration([WINDOW, WINDOW], minimum=4)
    assert actual.correlations == pytest.approx({"helpful": 1.0, "harmful": -0.25 / math.sqrt(0.125), "constant": 0.0})
    assert actual.weights == pytest.approx(actual.correlations)
    assert (actual.successes, actual.failures) == (4, 4)


def test_too_few_successes_give_weight_zero():
    assert set(calibration([WINDOW], minimum=3).weights.values()) == {0.0}
    never = validate_components([[1], [0]], [[0], [1]], [0, 0])
    assert set(calibration([never], minimum=1).weights.values()) == {0.0}


def test_a_weak_correlation_counts_nothing():
    assert calibration([WINDOW], minimum=1, least=0.8).weights == {"helpful": 1.0, "harmful": 0.0, "constant": 0.0}


def test_calibrated_rewards_reach_the_wrapped_estimator():
    """harmful counts -1/sqrt(2) each: returns 2, 2 - 0.25/sqrt(2), -0.25/sqrt(2), -0.5/sqrt(2)."""
    returns = [2 - 0.0, 2 - 0.25 / math.sqrt(2), -0.25 / math.sqrt(2), -0.5 / math.sqrt(2)]
    expected = [[r - sum(returns) / 4] for r in returns]
    expect(estimator("dr_grpo | calibrated(minimum=1)")(WINDOW), expected)
    given_before = estimator("dr_grpo | calibrated(weights={'helpful': 2.0})")(WINDOW)
    expect(given_before, [[1.5], [1.5], [-1.5], [-1.5]])


def test_a_trajectory_that_failed_calibrates_nothing():
    broken = validate_components([[1], [1], [0], [0], [0]], [[0], [0.25], [0.25], [0.5], [9]], [1, 1, 0, 0, 1])
    group = Group.from_arrays(
        outcomes=broken.outcomes, components=broken.components, valid=[True, True, True, True, False]
    )
    assert calibration([group]).correlations == calibration([WINDOW]).correlations
