"""Worked examples of the estimators that are told more than rewards: progress, gold answers, shares, hindsight.

The group of `test_estimators_by_hand`: three trajectories of 2, 1 and 3 turns, with returns 1.5, 0 and 0.3.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from credit_cases import GROUP, expect

from agentgym.credit import Group, estimator
from agentgym.errors import CreditError, MissingSignalError
from agentgym.methods.credit.trace import gaps_closed

LN2 = math.log(2)
PROGRESS = [[0.2, 0.6], [0.2], [0.2, 0.5, 0.1]]


def test_a_potential_is_subtracted_from_the_return_to_go():
    """Returns-to-go less progress: [1.3, 0.4], [-0.2], [0.1, -0.2, 0.0].

    Turn 0: 1.3 - (-0.1)/2 = 1.35; -0.2 - 1.4/2 = -0.9; 0.1 - 1.1/2 = -0.45: as without, since all start alike.
    Turn 1: 0.4 + 0.2 = 0.6 and -0.6. Turn 2, alone: 0.0 - ((1.5 - 0.2) + (0 - 0.2))/2 = -0.55.
    """
    group = GROUP.with_signals(potentials=PROGRESS)
    expect(estimator("potential_shaping")(group), [[1.35, 0.6], [-0.9], [-0.45, -0.6, -0.55]])


def test_information_gain_is_the_probability_of_the_gold_answer_as_a_potential():
    """The same numbers as probabilities; what is known after the last turn is not looked at."""
    after = [[0.9], [0.1], [0.3]]
    logs = [[math.log(p) for p in row + last] for row, last in zip(PROGRESS, after, strict=True)]
    group = GROUP.with_signals(gold_logprobs=logs)
    expect(estimator("information_gain")(group), [[1.35, 0.6], [-0.9], [-0.45, -0.6, -0.55]])


def test_shaping_adds_differences_of_the_potential_and_ends_it_at_zero():
    """Written out: the first gets 0.5 + (0.6 - 0.2) = 0.9 and 0 + (0 - 0.6) = -0.6, and then its outcome 1.

    The third 0 + 0.3, 0.2 - 0.4, 0.1 - 0.1; the second 0 - 0.2. `return_to_go` of these is the shaped estimator.
    """
    by_hand = Group.from_arrays(outcomes=[1, 0, 0], turn_rewards=[[0.9, -0.6], [-0.2], [0.3, -0.2, 0.0]])
    expect(
        estimator("potential_shaping")(GROUP.with_signals(potentials=PROGRESS)),
        [list(row) for row in estimator("return_to_go")(by_hand)],
    )


def test_a_missing_potential_is_the_last_known_one():
    """Turn 1 of the third is not known: 0.2 stands. Turn 1: 0.4 - (0.3 - 0.2) = 0.3 and -0.3."""
    group = GROUP.with_signals(potentials=[[0.2, 0.6], [0.2], [0.2, None, 0.1]])
    expect(estimator("potential_shaping")(group), [[1.35, 0.3], [-0.9], [-0.45, -0.3, -0.55]])


SCORED = Group.from_arrays(
    outcomes=[1, 0],
    turns=[2, 1],
    truncated=[False, True],
    gold_logprobs=[[math.log(p) for p in row] for row in ([0.2, 0.6, 0.9], [0.2, 0.1])],
)


def test_igpo_standardises_gains_and_outcomes_together_and_sums_from_the_turn_on():
    """Rewards 0.4, 1 and 0: mean 0.46667, differences -1/15, 8/15, -7/15, squares sum to 114/225.

    std = sqrt(114/225/2) = 0.5033. First: (-1/15 + 8/15)/std, (8/15)/std; second: (-7/15)/std.
    """
    std = math.sqrt(114 / 225 / 2) + 1e-6
    expect(estimator("igpo")(SCORED), [[7 / 15 / std, 8 / 15 / std], [-7 / 15 / std]])


def test_igpo_decays_and_leaves_the_scale():
    """-1/15 + 0.5 * 8/15 = 0.2."""
    expect(estimator("igpo", scale="none", gamma=0.5)(SCORED), [[0.2, 8 / 15], [-7 / 15]])


def test_igpo_can_pay_the_gain_of_the_log_probability():
    """log 0.6/0.2 = log 3, 1 and 0: the mean m = (log 3 + 1)/3; log 3 + 1 - 2 m = m, 1 - m; -m."""
    m = (math.log(3) + 1) / 3
    expect(estimator("igpo", gain="log_prob", scale="none")(SCORED), [[m, 1 - m], [-m]])


def test_igpo_of_the_released_code_can_keep_gains_and_outcomes_apart():
    """Outcomes 1 and 0: +-0.5 over sqrt(0.5). One gain alone has no spread and adds 0. ddof 0 as there: +-1."""
    z = 0.5 / (math.sqrt(0.5) + 1e-6)
    expect(estimator("igpo", normalise="separate")(SCORED), [[z, z], [-z]])
    expect(estimator("igpo", normalise="separate", ddof=0)(SCORED), [[1, 1], [-1]], tolerance=3e-6)


def test_igpo_can_give_a_truncated_trajectory_its_gain_in_place_of_the_outcome():
    """The second gains -0.1 and has no answer. Mean (0.4 + 1 - 0.1)/3 = 13/30: -1/30 + 17/30, 17/30; -16/30."""
    actual = estimator("igpo", truncated="gain", scale="none")(SCORED)
    expect(actual, [[16 / 30, 17 / 30], [-16 / 30]])


GAPS = Group.from_arrays(
    outcomes=[1, 0],
    turns=[3, 1],
    tool_turn=[[True, True, False], [False]],
    gold_logprobs=[[-8, -2, -1, -0.5], [-8, -8]],
)


def test_trace_averages_how_much_the_next_turns_closed_the_gap():
    """log(8/2) = 2 ln 2, log(2/1) = ln 2; the answer turn is no tool turn. Outcomes: 1 - 0 = 1 and -1.

    Window 2, decay 0.5: turn 0 (2 + 0.5)/1.5 ln 2, turn 1 ln 2; both windows reach the end: + A = 1.
    """
    actual = estimator("trace", window=2, gamma=0.5, scale="none")(GAPS)
    expect(actual, [[1 + 0.2 * (2.5 / 1.5 * LN2 + 1), 1 + 0.2 * (LN2 + 1), 1], [-1]])


def test_trace_with_a_window_of_one_adds_the_outcome_only_to_the_last_tool_turn():
    actual = estimator("trace", window=1, scale="none", outcome_share=0.5)(GAPS)
    expect(actual, [[1 + 0.2 * 2 * LN2, 1 + 0.2 * (LN2 + 0.5), 1], [-1]])


def test_trace_closes_gaps_that_add_up():
    """P13: over all turns log(8/0.5)."""
    assert gaps_closed(GAPS)[0].sum() == pytest.approx(math.log(16), rel=1e-12)


def test_trace_without_a_tool_turn_is_the_outcome():
    silent = GAPS.with_signals(tool_turn=[[False] * 3, [False]])
    expect(estimator("trace")(silent), [list(a) for a in estimator("grpo")(silent)])


SHARES = [[0.3, 0.9], [0.4], [0.1, 0.2, 0.7]]


def test_spa_gives_the_last_turn_the_rest_of_the_outcome():
    """Shares 0.3, 0.7 | 0 | 0.1, 0.2, -0.3 on top of the rewards: [0.8, 0.7], [0], [0.1, 0.4, -0.2].

    Returns-to-go [1.5, 0.7], [0], [0.3, 0.2, -0.2]. Turn 1: 0.5 and -0.5; turn 2, alone: -0.2 - 1.5/2 = -0.95.
    """
    actual = estimator("spa")(GROUP.with_signals(contributions=SHARES))
    expect(actual, [[1.35, 0.5], [-0.9], [-0.45, -0.5, -0.95]])


def test_spa_of_the_paper_pays_the_shares_whatever_they_sum_to():
    """[0.8, 0.9], [0.4], [0.1, 0.4, 0.8]: to go [1.7, 0.9], [0.4], [1.3, 1.2, 0.8].

    Turn 0: 1.7 - 0.85, 0.4 - 1.5, 1.3 - 1.05; turn 1: -0.3, 0.3; turn 2, alone: 0.8 - (1.7 + 0.4)/2.
    """
    actual = estimator("spa", remainder="none")(GROUP.with_signals(contributions=SHARES))
    expect(actual, [[0.85, -0.3], [-1.1], [0.25, 0.3, -0.25]])


def test_spa_grounding_pays_for_turns_that_called_a_tool():
    """0.5 more at turn 0 of the first, turns 0 and 1 of the third: to go [2, 0.7], [0], [1.3, 0.7, -0.2]."""
    group = GROUP.with_signals(contributions=SHARES)
    with pytest.raises(MissingSignalError, match="has no signal tool_turn"):
        estimator("spa", grounding_weight=1.0)(group)
    actual = estimator("spa", grounding_weight=1.0)(group.with_signals(tool_turn=[[1, 0], [0], [1, 1, 0]]))
    expect(actual, [[1.35, 0.0], [-1.65], [0.3, 0.0, -1.2]])


def test_hindsight_leans_to_the_turns_that_moved_the_belief():
    """One of two solved: B = 1/2. Evidence ln 3 moves it to 3/4, then 0 leaves it: moves 0.25, 0, so z = 1, -1.

    w = 1.5, 0.5, and half of it counts: 1.25, 0.75. The other: to 1/4 and back to 1/2; it failed, so the turn
    away from success is the telling one: -1.25, -0.75.
    """
    group = Group.from_arrays(outcomes=[1, 0], hindsight=[[math.log(3), 0], [-math.log(3), math.log(3)]])
    expect(estimator("hindsight", scale="none")(group), [[1.25, 0.75], [-1.25, -0.75]], tolerance=1e-5)


def test_hindsight_evidence_decays():
    """With gamma 0 the second turn alone speaks: ln 3 to 3/4, then 0 back to 1/2: moves 0.25, -0.25."""
    group = Group.from_arrays(outcomes=[1, 0], hindsight=[[math.log(3), 0], [0, 0]])
    actual = estimator("hindsight", scale="none", gamma=0.0)(group)
    expect(actual, [[1.25, 0.75], [-1, -1]], tolerance=1e-5)


def test_hca_weights_the_return_by_how_much_likelier_the_turn_made_it():
    """Twice as likely in hindsight: (1 - 1/2) * 1.5; half as likely: (1 - 2) * 1.5; and nothing came of the other."""
    group = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0, 0.5], [0]], hindsight=[[LN2, -LN2], [2 * LN2]])
    expect(estimator("hca")(group), [[0.75, -1.5], [0]])


def test_hcapo_compares_refined_returns_and_adds_the_outcome():
    """Q: 1.5 * 1, min(8, 2) * 1 | 0. Turn 0: +-1.5; turn 1, alone: 2 - 0. Outcome: +-1."""
    group = Group.from_arrays(outcomes=[1, 0], hindsight=[[math.log(1.5), math.log(8)], [0]])
    expect(estimator("hcapo")(group), [[2.5, 3], [-2.5]])
    std = math.sqrt(0.5) + 1e-6
    expect(estimator("hcapo", scale="std")(group), [[2 / std, 2.5 / std], [-2 / std]])
    with pytest.raises(CreditError, match=r"lowest = 3\.0 is above highest"):
        estimator("hcapo", lowest=3.0)(group)


@pytest.mark.parametrize(
    ("name", "options", "base"),
    [
        ("potential_shaping", {"weight": 0.0}, ("return_to_go", {})),
        ("information_gain", {"weight": 0.0, "gamma": 0.9}, ("return_to_go", {"gamma": 0.9})),
        ("trace", {"gain_weight": 0.0}, ("grpo", {"turn_weight": 0.0})),
        ("hindsight", {"share": 0.0}, ("grpo", {})),
        ("hindsight", {"band": 0.0, "scale": "none"}, ("rloo", {})),
        ("hcapo", {"credit_weight": 0.0}, ("rloo", {})),
        ("leave_one_turn_out", {"credit_weight": 0.0}, ("rloo", {})),
        ("shapley", {"credit_weight": 0.0, "scale": "std"}, ("grpo", {})),
    ],
)
def test_with_its_weight_at_zero_an_estimator_is_its_base_bit_for_bit(name, options, base):
    """P6."""
    group = GROUP.with_signals(
        potentials=PROGRESS,
        gold_logprobs=[[-3, -1, -1], [-2, -2], [-1, -2, -3, 0]],
        hindsight=[[1, -1], [2], [0, 1, 3]],
        tool_turn=[[1, 0], [1], [0, 1, 1]],
        counterfactuals=[{frozenset(k for k in range(n) if m >> k & 1): m / 8 for m in range(2**n)} for n in (2, 1, 3)],
    )
    for actual, expected in zip(estimator(name, **options)(group), estimator(base[0], **base[1])(group), strict=True):
        np.testing.assert_array_equal(actual, expected)
