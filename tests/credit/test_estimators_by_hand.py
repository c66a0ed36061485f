"""Worked examples: every number an estimator gives, with the arithmetic that leads to it.

The group of all of them is `credit_cases.GROUP`, three trajectories of 2, 1 and 3 turns:

    i   outcome   turn rewards          R_i
    0   1         0.5   0               1.5
    1   0         0                     0
    2   0         none  0.2   0.1       0.3
"""

from __future__ import annotations

import math

import pytest
from credit_cases import GROUP, NONE, expect

from agentgym.credit import CreditWarning, Group, estimator


def test_rloo_subtracts_the_mean_of_the_other_two():
    """1.5 - (0 + 0.3)/2 = 1.35; 0 - (1.5 + 0.3)/2 = -0.9; 0.3 - (1.5 + 0)/2 = -0.45."""
    expect(estimator("rloo")(GROUP), [[1.35, 1.35], [-0.9], [-0.45, -0.45, -0.45]])


def test_dr_grpo_subtracts_the_mean_of_all_three():
    """The mean is (1.5 + 0 + 0.3)/3 = 0.6."""
    expect(estimator("dr_grpo")(GROUP), [[0.9, 0.9], [-0.6], [-0.3, -0.3, -0.3]])


def test_grpo_divides_by_the_standard_deviation():
    """Squares of 0.9, -0.6, -0.3 sum to 0.81 + 0.36 + 0.09 = 1.26; std = sqrt(1.26 / 2) = 0.7937254."""
    std = math.sqrt(0.63) + 1e-6
    expect(estimator("grpo")(GROUP), [[0.9 / std] * 2, [-0.6 / std], [-0.3 / std] * 3])


def test_grpo_with_ddof_0_divides_by_the_population_deviation():
    """sqrt(1.26 / 3) = 0.6480741."""
    std = math.sqrt(0.42) + 1e-6
    expect(estimator("grpo", ddof=0)(GROUP), [[0.9 / std] * 2, [-0.6 / std], [-0.3 / std] * 3])


def test_outcome_only_is_turn_weight_0():
    """Outcomes 1, 0, 0: 1 - 0 = 1 and 0 - 1/2 = -0.5; the turn rewards do not count."""
    expect(estimator("rloo", turn_weight=0.0)(GROUP), [[1, 1], [-0.5], [-0.5] * 3])


def test_return_to_go_compares_returns_from_each_index_on():
    """Returns-to-go: [1.5, 1.0], [0], [0.3, 0.3, 0.1].

    Turn 0, all three: 1.5 - 0.15 = 1.35; 0 - 0.9 = -0.9; 0.3 - 0.75 = -0.45.
    Turn 1, the first and the third: 1.0 - 0.3 = 0.7 and 0.3 - 1.0 = -0.7.
    Turn 2, the third alone: the others' whole returns stand in, 0.1 - (1.5 + 0)/2 = -0.65.
    """
    expect(estimator("return_to_go")(GROUP), [[1.35, 0.7], [-0.9], [-0.45, -0.7, -0.65]])


def test_return_to_go_with_the_mean_keeps_the_own_trajectory_in():
    """Turn 0: mean 0.6. Turn 1: (1.0 + 0.3)/2 = 0.65. Turn 2, alone: the mean of all whole returns, 0.6."""
    actual = estimator("return_to_go", baseline="mean")(GROUP)
    expect(actual, [[0.9, 0.35], [-0.6], [-0.3, -0.35, -0.5]])


def test_return_to_go_discounts_per_turn_and_leaves_the_last_turn_its_outcome():
    """gamma 0.5: first [0.5 + 0.5*(0 + 1), 0 + 1] = [1, 1]; third [0 + 0.5*(0.2 + 0.5*0.1), 0.25, 0.1].

    That is [0.125, 0.25, 0.1]. Turn 0: 1 - (0 + 0.125)/2 = 0.9375; 0 - 1.125/2 = -0.5625; 0.125 - 0.5 = -0.375.
    Turn 1: 1 - 0.25 = 0.75 and -0.75. Turn 2, alone: whole returns are not discounted, 0.1 - (1.5 + 0)/2 = -0.65.
    """
    actual = estimator("return_to_go", gamma=0.5)(GROUP)
    expect(actual, [[0.9375, 0.75], [-0.5625], [-0.375, -0.75, -0.65]])


def test_return_to_go_scaled_divides_the_whole_group_by_one_number():
    """Mean-centred: [0.9, 0.35], [-0.6], [-0.3, -0.35, -0.5]. Mean squares per trajectory, then over them:

    (0.81 + 0.1225)/2 = 0.46625; 0.36; (0.09 + 0.1225 + 0.25)/3 = 0.1541667; sum 0.9804167; / (3 - 1), root.
    """
    std = math.sqrt((0.46625 + 0.36 + 0.4625 / 3) / 2) + 1e-6
    expected = [[1.35, 0.7], [-0.9], [-0.45, -0.7, -0.65]]
    expect(estimator("return_to_go", scale="std")(GROUP), [[a / std for a in row] for row in expected])


def test_mt_grpo_counts_zero_for_the_missing_turns_of_a_trajectory_that_stopped():
    """Padded turn rewards: [0.5, 0, 0], [0, 0, 0], [0, 0.2, 0.1]; minus the mean of the other two:

    index 0: 0.5, -0.25, -0.25; index 1: -0.1, -0.1, 0.2; index 2: -0.05, -0.05, 0.1. Outcome: 1, -0.5, -0.5.
    First: 0.5 - 0.1 - 0.05 + 1 = 1.35, from turn 1 on -0.15 + 1 = 0.85. Second: -0.4 - 0.5 = -0.9.
    Third: 0.05 - 0.5 = -0.45; 0.3 - 0.5 = -0.2; 0.1 - 0.5 = -0.4.
    """
    expect(estimator("mt_grpo")(GROUP), [[1.35, 0.85], [-0.9], [-0.45, -0.2, -0.4]])


def test_mt_grpo_scaled_standardises_every_index_by_itself():
    """Two trajectories, outcomes 1 and 0, turn rewards [1, 0] and [0, 3]: every difference is d, its std |d|/sqrt(2).

    So each index gives +-1/sqrt(2) (with the mean as the baseline), whatever its size.
    First: index 0 +z, index 1 -z, outcome +z: turn 0 z, turn 1 0. Second: the negative.
    """
    group = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[1, 0], [0, 3]])
    z = 1 / math.sqrt(2)
    expect(estimator("mt_grpo", scale="std", baseline="mean")(group), [[z, 0], [-z, 0]], tolerance=3e-6)


def test_mt_grpo_reach_compares_only_those_that_were_there():
    """Index 0, where the third has no reward: 0.5 and 0, others' mean: +0.5, -0.5. Index 1: -0.2, +0.2. Index 2: 0.

    Outcome: 1, -0.5, -0.5. First: 0.5 - 0.2 + 1 = 1.3 and -0.2 + 1 = 0.8. Second: -0.5 - 0.5 = -1.
    Third: 0 + 0.2 + 0 - 0.5 = -0.3, the same at turn 1, and 0 - 0.5 at turn 2.
    """
    with pytest.warns(CreditWarning, match="wrong sign"):
        chosen = estimator("mt_grpo_reach", baseline="loo", scale="none")
    expect(chosen(GROUP), [[1.3, 0.8], [-1.0], [-0.3, -0.3, -0.5]])


def test_long_trajectories_do_not_count_more_than_short_ones():
    """Outcomes 1, 0, 1, 0 with 2, 1, 2, 1 turns: the mean over trajectories is 0.5; over turns it would be 0.667."""
    group = Group.from_arrays(outcomes=[1, 0, 1, 0], turns=[2, 1, 2, 1])
    expect(estimator("dr_grpo")(group), [[0.5, 0.5], [-0.5], [0.5, 0.5], [-0.5]])


def test_one_success_in_four_is_not_divided_by_the_spread_of_the_failures():
    """1, 0, 0, 0: 1 - 0 = 1; 0 - 1/3. Divided by the others' spread, 0, it would be a million."""
    group = Group.from_arrays(outcomes=[1, 0, 0, 0])
    expect(estimator("rloo")(group), [[1], [-1 / 3], [-1 / 3], [-1 / 3]])


def test_a_reward_of_zero_is_not_a_missing_reward():
    """Index 0 holds 1, 0 and none. Reach-only compares 1 with 0 and leaves the third out; a true 0 is compared.

    With none: 1 - 0 = 1, 0 - 1 = -1, nothing. With 0: 1 - 0 = 1, 0 - 0.5 = -0.5, 0 - 0.5 = -0.5. Outcomes are equal.
    """
    with pytest.warns(CreditWarning):
        chosen = estimator("mt_grpo_reach", baseline="loo", scale="none")
    missing = Group.from_arrays(outcomes=[0, 0, 0], turn_rewards=[[1], [0], [NONE]])
    zero = Group.from_arrays(outcomes=[0, 0, 0], turn_rewards=[[1], [0], [0]])
    expect(chosen(missing), [[1], [-1], [0]])
    expect(chosen(zero), [[1], [-0.5], [-0.5]])


def test_turn_rewards_give_a_gradient_if_outcomes_are_equal():
    """Both fail, one after a useful turn: 0.5 above 0. The turn after it earned nothing, and is told so."""
    group = Group.from_arrays(outcomes=[0, 0], turn_rewards=[[0.5, 0], [0, 0]])
    expect(estimator("return_to_go")(group), [[0.5, 0], [-0.5, 0]])
    expect(estimator("mt_grpo")(group), [[0.5, 0], [-0.5, 0]])
    expect(estimator("rloo")(group), [[0.5, 0.5], [-0.5, -0.5]])
    expect(estimator("rloo", turn_weight=0.0)(group), [[0, 0], [0, 0]])
