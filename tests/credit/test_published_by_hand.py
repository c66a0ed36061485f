"""Worked examples of the published estimators: every number, with the arithmetic that leads to it.

The group of most of them, as in test_estimators_by_hand.py:

    i   outcome   turn rewards          R_i    G_ik (gamma 1)
    0   1         0.5   0               1.5    1.5  1.0
    1   0         0                     0      0
    2   0         none  0.2   0.1       0.3    0.3  0.3  0.1
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from credit_cases import GROUP, expect

from agentgym.credit import CreditWarning, Group, estimator
from agentgym.methods.credit.bilevel_gae import token_advantages

Z = 1 / math.sqrt(2)  # two that differ, over their standard deviation
ABOUT = 5e-6  # of the 1e-6 beside a spread


def batch_of(name: str, *groups: Group, **options: object) -> list[list[list[float]]]:
    return [[a.tolist() for a in credit.advantages] for credit in estimator(name, **options).batch(groups)]


def test_reinforce_pp_whitens_returns_to_go_with_equal_weight_per_trajectory():
    """The mean of the trajectories' means: (2.5/2 + 0 + 0.7/3)/3; squares likewise."""
    m = (1.25 + 0 + 0.7 / 3) / 3
    square = (((1.5 - m) ** 2 + (1 - m) ** 2) / 2 + m**2 + (2 * (0.3 - m) ** 2 + (0.1 - m) ** 2) / 3) / 3
    s = math.sqrt(square) + 1e-6
    expected = [[(1.5 - m) / s, (1 - m) / s], [-m / s], [(0.3 - m) / s, (0.3 - m) / s, (0.1 - m) / s]]
    expect(estimator("reinforce_pp")(GROUP), expected)


def test_rebn_is_reinforce_pp_with_every_turn_counting_once():
    """Six turns: mean 3.2/6 = 8/15."""
    m = 8 / 15
    s = math.sqrt(((1.5 - m) ** 2 + (1 - m) ** 2 + m**2 + 2 * (0.3 - m) ** 2 + (0.1 - m) ** 2) / 6) + 1e-6
    expected = [[(1.5 - m) / s, (1 - m) / s], [-m / s], [(0.3 - m) / s, (0.3 - m) / s, (0.1 - m) / s]]
    expect(estimator("rebn")(GROUP), expected)


def test_reinforce_pp_as_published_counts_tokens():
    """One turn each, 3 and 1 tokens, outcomes 1 and 0: mean 0.75, variance 0.75 * 0.0625 + 0.25 * 0.5625 = 0.1875."""
    group = Group.from_arrays(outcomes=[1, 0], lengths=[[3], [1]])
    s = math.sqrt(0.1875) + 1e-6
    expect(estimator("reinforce_pp", weigh="tokens")(group), [[0.25 / s], [-0.75 / s]])


def test_reinforce_pp_discounts():
    """Outcome 1 after two turns, at gamma 0.5: 0.5 and 1, mean 0.75, std 0.25. Beside it 0.75, which is the mean."""
    group = Group.from_arrays(outcomes=[1, 0.75], turns=[2, 1])
    s = math.sqrt(0.25**2 / 2) + 1e-6
    expect(estimator("reinforce_pp", gamma=0.5)(group), [[-0.25 / s, 0.25 / s], [0]])


def test_reinforce_pp_compares_tasks_with_each_other_and_its_baseline_variant_does_not():
    """A hard task 1, 0 and an easy one 1, 1: over all, mean 0.75 and std sqrt(3)/4, so 1/sqrt(3) for every success.

    Above its own group: 0.5, -0.5, 0, 0, whose std over the batch is sqrt(0.125).
    """
    hard, easy = Group.from_arrays(outcomes=[1, 0]), Group.from_arrays(outcomes=[1, 1])
    first, second = batch_of("reinforce_pp", hard, easy)
    expect(estimator("reinforce_pp")(easy), [[0], [0]])
    assert [a[0] for a in first + second] == pytest.approx([3**-0.5, -(3**0.5), 3**-0.5, 3**-0.5], abs=ABOUT)
    first, second = batch_of("reinforce_pp_baseline", hard, easy)
    assert [a[0] for a in first + second] == pytest.approx([2**0.5, -(2**0.5), 0, 0], abs=ABOUT)


def test_opo_weighs_returns_by_length():
    """12 tokens: (3 * 1.5 + 5 * 0 + 4 * 0.3)/12 = 0.475. The others' alone: 1.2/9, 5.7/7, 4.5/8."""
    group = GROUP.with_signals(lengths=[[2, 1], [5], [1, 1, 2]])
    expect(estimator("opo")(group), [[1.025, 1.025], [-0.475], [-0.175] * 3])
    expect(estimator("opo", baseline="loo")(group), [[1.5 - 1.2 / 9] * 2, [-5.7 / 7], [0.3 - 0.5625] * 3])


def test_opo_without_any_token_is_the_plain_mean():
    group = GROUP.with_signals(lengths=[[0, 0], [0], [0, 0, 0]])
    expect(estimator("opo")(group), [[0.9, 0.9], [-0.6], [-0.3] * 3])
    expect(estimator("opo", baseline="loo")(group), [[1.35, 1.35], [-0.9], [-0.45] * 3])


def test_otb_weights_returns_by_the_score_norms_up_to_the_turn():
    """Norms [1, 2], [2], [1, 0, 3]; summed up [1, 3], [2], [1, 1, 4].

    Turn 0: (1 * 1.5 + 2 * 0 + 1 * 0.3)/4 = 0.45. Turn 1: (3 * 1 + 1 * 0.3)/4 = 0.825. Turn 2: itself.
    Left out: turn 0 (0.3)/3 = 0.1, 1.8/2 = 0.9, 1.5/3 = 0.5; turn 1 the other's; turn 2 the others' whole 0.75.
    """
    group = GROUP.with_signals(score_norms=[[1, 2], [2], [1, 0, 3]])
    expect(estimator("otb")(group), [[1.05, 0.175], [-0.45], [-0.15, -0.525, 0]])
    expect(estimator("otb", baseline="loo")(group), [[1.4, 0.7], [-0.9], [-0.2, -0.7, -0.65]])
    none = GROUP.with_signals(score_norms=[[0, 0], [0], [0, 0, 0]])
    expect(estimator("otb")(none), [[0.9, 0.35], [-0.6], [-0.3, -0.35, 0]])
    expect(estimator("otb", baseline="loo")(none), estimator("return_to_go")(GROUP))


@pytest.mark.filterwarnings("ignore::agentgym.credit.CreditWarning")
def test_mt_grpo_two_segment_counts_turn_rewards_up_to_the_tools_result():
    """Outcome minus mean: 2/3, -1/3, -1/3. Turn sums 0.5, 0, 0.3 minus their mean 0.8/3: 0.7/3, -0.8/3, 0.1/3.

    The first calls a tool at turn 0: 2/3 + 0.7/3 = 0.9, then 2/3. The second never: R minus 0.6. The third calls one
    at turns 0 and 1: -1/3 + 0.1/3 = -0.3 up to the last (or the first) of them, then -1/3.
    """
    group = GROUP.with_signals(tool_turn=[[True, False], [False], [True, True, False]])
    plain = {"scale": "none"}
    actual = estimator("mt_grpo_two_segment", **plain)(group)
    expect(actual, [[0.9, 2 / 3], [-0.6], [-0.3, -0.3, -1 / 3]])
    actual = estimator("mt_grpo_two_segment", boundary="first", **plain)(group)
    expect(actual, [[0.9, 2 / 3], [-0.6], [-0.3, -1 / 3, -1 / 3]])
    actual = estimator("mt_grpo_two_segment", alpha=10.0, **plain)(group)
    expect(actual, [[9 / 3, 2 / 3], [-0.6], [0, 0, -1 / 3]])
    # Cumulative: 0.5 + 0.5 = 1, 0, 0.3 minus 1.3/3 up to the tool's result; the second, without a tool, everywhere.
    actual = estimator("mt_grpo_two_segment", combine="cumulative", discount=0.5, **plain)(group)
    expect(actual, [[1.7 / 3, 2 / 3], [-1.3 / 3], [-0.4 / 3, -0.4 / 3, -1 / 3]])
    both = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[3, 0], [0, 0]], tool_turn=[[1, 0], [1, 0]])
    expect(estimator("mt_grpo_two_segment")(both), [[2 * Z, Z], [-2 * Z, -Z]], ABOUT)


def test_gtpo_standardises_each_index_over_those_that_reached_it():
    """Turn 0: 0.9, -0.6, -0.3 over sqrt(0.63). Turn 1: two that differ. Turn 2: nobody else was there."""
    with pytest.warns(CreditWarning, match="use 'return_to_go'"):
        actual = estimator("gtpo")(GROUP)
    s = math.sqrt(0.63)
    expect(actual, [[0.9 / s, Z], [-0.6 / s], [-0.3 / s, -Z, 0]], ABOUT)


@pytest.mark.filterwarnings("ignore::agentgym.credit.CreditWarning")
def test_kevin_discounts_and_standardises_over_all_turns():
    """gamma 0.4: first [0.5 + 0.4 * 1, 1] = [0.9, 1]; third [0.4 * 0.24, 0.2 + 0.4 * 0.1, 0.1] = [0.096, 0.24, 0.1]."""
    turn_returns = [0.9, 1.0, 0.0, 0.096, 0.24, 0.1]
    m = sum(turn_returns) / 6
    s = math.sqrt(sum((w - m) ** 2 for w in turn_returns) / 6) + 1e-6
    a = [(w - m) / s for w in turn_returns]
    expect(estimator("kevin")(GROUP), [a[:2], a[2:3], a[3:]])


def test_hybrid_adds_a_share_of_the_outcome():
    """gamma 0.5: G = [1, 1], [0], [0.125, 0.25, 0.1]. Turn 0 minus 0.375, turn 1 minus 0.625, turn 2 alone: 0.

    The outcome minus 1/3, times 0.3: 0.2, -0.1, -0.1.
    """
    actual = estimator("hybrid", gamma=0.5, scale="none")(GROUP)
    expect(actual, [[0.825, 0.575], [-0.475], [-0.35, -0.475, -0.1]])


@pytest.mark.filterwarnings("ignore::agentgym.credit.CreditWarning")
def test_hrpo_compares_each_action_with_all_actions_of_the_group():
    """The outcome minus 1/3; five rewards, 0.5, 0, 0, 0.2, 0.1, minus 0.16. Without one: the outcome alone."""
    expect(
        estimator("hrpo", scale="none")(GROUP),
        [[2 / 3 + 0.34, 2 / 3 - 0.16], [-1 / 3 - 0.16], [-1 / 3, -1 / 3 + 0.04, -1 / 3 - 0.06]],
    )
    z = math.sqrt(1 / 3) + 1e-6  # outcomes 1, 0, 0: std sqrt((4 + 1 + 1)/9/2)
    s = math.sqrt((0.34**2 + 2 * 0.16**2 + 0.04**2 + 0.06**2) / 4) + 1e-6
    first, second = [2 / 3 / z + 0.34 / s, 2 / 3 / z - 0.16 / s], [-1 / 3 / z - 0.16 / s]
    expect(estimator("hrpo")(GROUP)[:2], [first, second])
    expect(estimator("hrpo", turn_weight=0.0)(GROUP), [a.tolist() for a in estimator("flow_grpo")(GROUP)])


ROOMS = GROUP.with_signals(state_keys=[["a", "b"], ["a"], ["a", "b", "a"]])


def test_gigpo_compares_turns_made_in_the_same_state():
    """In a: 1.5, 0, 0.3, 0.1 minus 0.475; in b: 1, 0.3 minus 0.65. The episode: 0.9, -0.6, -0.3."""
    actual = estimator("gigpo", gamma=1.0, scale="none")(ROOMS)
    expect(actual, [[0.9 + 1.025, 0.9 + 0.35], [-0.6 - 0.475], [-0.3 - 0.175, -0.3 - 0.35, -0.3 - 0.375]])


def test_gigpo_with_leave_one_out_compares_with_other_trajectories_only():
    """In a the first meets 0, 0.3, 0.1 (mean 0.4/3), the second 1.5, 0.3, 0.1 (1.9/3), the third 1.5, 0 (0.75)."""
    actual = estimator("gigpo", gamma=1.0, scale="none", baseline="loo")(ROOMS)
    expected = [[1.35 + 1.5 - 0.4 / 3, 1.35 + 0.7], [-0.9 - 1.9 / 3], [-0.45 - 0.45, -0.45 - 0.7, -0.45 - 0.65]]
    expect(actual, expected)


def test_gigpo_with_statistics_of_steps_counts_a_trajectory_once_for_each_of_its_turns():
    """Returns by turn: 1.5, 1.5, 0, 0.3, 0.3, 0.3. Mean 0.65; squares of 0.85 (2), -0.65, -0.35 (3) sum to 2.235."""
    steps = {"statistics": "steps", "step_weight": 0.0}
    z = math.sqrt(2.235 / 5) + 1e-6
    expect(estimator("gigpo", **steps)(ROOMS), [[0.85 / z] * 2, [-0.65 / z], [-0.35 / z] * 3])
    expect(estimator("gigpo", scale="none", **steps)(ROOMS), [[0.85] * 2, [-0.65], [-0.35] * 3])
    left_out = estimator("gigpo", scale="none", baseline="loo", **steps)(ROOMS)
    expect(left_out, [[1.5 - 0.9 / 4] * 2, [-3.9 / 5], [0.3 - 1.0] * 3])
    alone = Group.from_arrays(outcomes=[1], turns=[2], state_keys=[["a", "b"]])
    expect(estimator("gigpo", **steps)(alone), [[0.0, 0.0]])


def test_gigpo_compares_a_singleton_state_with_the_group():
    """c, met once: 0.1 minus the others' mean return 0.75, or minus that of all, 0.6."""
    group = GROUP.with_signals(state_keys=[["a", "b"], ["a"], ["a", "b", "c"]])
    options = {"gamma": 1.0, "scale": "none"}
    assert estimator("gigpo", **options)(group)[2][2] == pytest.approx(-0.3)
    assert estimator("gigpo", alone="group", **options)(group)[2][2] == pytest.approx(-0.3 - 0.5)
    loo = estimator("gigpo", alone="group", baseline="loo", **options)(group)
    assert loo[2][2] == pytest.approx(-0.45 - 0.65)


def test_gigpo_scaled_divides_by_the_spread_of_the_state():
    """Two trajectories, both turns in shared states: every difference is one standard deviation, episode and step."""
    group = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0, 0], [0, 0]], state_keys=[["a", "b"], ["a", "b"]])
    expect(estimator("gigpo")(group), [[2 * Z, 2 * Z], [-2 * Z, -2 * Z]], ABOUT)
    expect(estimator("gigpo", step_weight=0.5)(group), [[1.5 * Z] * 2, [-1.5 * Z] * 2], ABOUT)


def test_hgpo_weighs_longer_histories_more():
    """Level 1: in a 1.5, 0.3, 0.1 minus 1.9/3; in b 1, 0, 0.3 minus 1.3/3. Level 2, (a, b): 1, 0.3 minus 0.65.

    Turn 1 of the first: (1 * (1 - 1.3/3) + 2 * 0.35)/3, of the third (1 * (0.3 - 1.3/3) - 2 * 0.35)/3.
    """
    group = GROUP.with_signals(state_keys=[["a", "b"], ["b"], ["a", "b", "a"]])
    actual = estimator("hgpo", gamma=1.0, scale="none", history=1)(group)
    a, b = 1.9 / 3, 1.3 / 3
    expect(actual, [[1.5 - a, (1 - b + 0.7) / 3], [-b], [0.3 - a, (0.3 - b - 0.7) / 3, 0.1 - a]])
    actual = estimator("hgpo", gamma=1.0, scale="none", history=1, episode=True)(group)
    first = [(0.9 + 2 * (1.5 - a)) / 3, (0.9 + 2 * (1 - b) + 3 * 0.35) / 6]
    expect(actual[:2], [first, [(-0.6 - 2 * b) / 3]])


def test_rtmc_subtracts_the_value_of_the_state_from_that_of_the_action():
    """V_0 = 0.6. V(a) = (1.8 + 0.6)/4 = 0.6 over first visits, V(b) = (1.3 + 0.6)/3 = 1.9/3.

    Q(a, x) = (1.5 + 0.3 + 0.6)/3 = 0.8, Q(a, y) = (0 + 0.6)/2, Q(b, x) = (1 + 1.9/3)/2, Q(b, y) = (0.3 + 1.9/3)/2.
    """
    group = ROOMS.with_signals(action_keys=[["x", "x"], ["y"], ["x", "y", "x"]])
    b = 1.9 / 3
    expect(estimator("rtmc")(group), [[0.2, (1 + b) / 2 - b], [-0.3], [0.2, (0.3 + b) / 2 - b, 0.2]])


def test_rtmc_counts_only_the_first_turn_of_a_trajectory_in_a_state():
    """The first is in a twice, worth 2 and 1 then; V_0 = 1, V(a) = (2 + 0 + 1)/3, Q(a, x) = V(a) = 1, for both."""
    group = Group.from_arrays(
        outcomes=[1, 0], turn_rewards=[[1, 0], [0]], state_keys=[["a", "a"], ["a"]], action_keys=[["x", "x"], ["x"]]
    )
    expect(estimator("rtmc", prior_weight=1.0)(group), [[0, 0], [0]])
    apart = group.with_signals(action_keys=[["x", "y"], ["z"]])  # Q: (2 + 1)/2, (1 + 1)/2, (0 + 1)/2
    expect(estimator("rtmc")(apart), [[0.5, 0], [-0.5]])


VALUED = GROUP.with_signals(values=[[0.5, 0.25], [0.4], [0.1, 0.2, 0.3]])


def test_turn_gae_at_lambda_1_is_the_return_minus_the_prediction():
    expect(estimator("turn_gae")(VALUED), [[1.0, 0.75], [-0.4], [0.2, 0.1, -0.2]])


def test_turn_gae_mixes_surprises():
    """First: surprises 0.5 + 0.25 - 0.5 = 0.25 and 0 + 1 - 0.25 = 0.75; 0.25 + 0.5 * 0.75 = 0.625.

    Third: 0.1, 0.3, -0.2; from the back -0.2, 0.3 - 0.1 = 0.2, 0.1 + 0.1 = 0.2. With gamma 0.5 and lambda 1 the first
    gets 0.5 + 0.5 * 1 - 0.5 = 0.5.
    """
    expect(estimator("turn_gae", lam=0.5)(VALUED), [[0.625, 0.75], [-0.4], [0.2, 0.2, -0.2]])
    expect(estimator("turn_gae", gamma=0.5)(VALUED)[:1], [[0.5, 0.75]])


def test_turn_gae_of_a_truncated_episode_goes_on_from_the_critic():
    """The third was cut: 0.5 is still expected after its last turn, and belongs to every turn before it."""
    cut = Group.from_arrays(
        outcomes=[1, 0, 0],
        turn_rewards=[[0.5, 0], [0], [0, 0.2, 0.1]],
        truncated=[0, 0, 1],
        values=[[0.5, 0.25], [0.4], [0.1, 0.2, 0.3, 0.5]],
    )
    expect(estimator("turn_gae")(cut), [[1.0, 0.75], [-0.4], [0.2, 0.1, -0.2]])
    expect(estimator("turn_gae", truncated="bootstrap")(cut), [[1.0, 0.75], [-0.4], [0.7, 0.6, 0.3]])


def test_turn_gae_scaled_whitens_the_turns_of_the_group():
    """0.6 and -0.4, one turn each: mean 0.1, std 0.5."""
    group = Group.from_arrays(outcomes=[1, 0], values=[[0.4], [0.4]])
    expect(estimator("turn_gae", scale="std")(group), [[1], [-1]], ABOUT)


TOKENS = GROUP.with_signals(token_values=[[[0.5, 0.6], [0.25]], [[0.4, 0.2, 0.1]], [[0.1], [0.2], [0.3]]])


def test_bilevel_gae_goes_on_inside_the_turn():
    """Turn returns are G. First turn: surprises 0.6 - 0.5 and 1.5 - 0.6; 0.1 + 0.5 * 0.9 = 0.55.

    Second: -0.2, -0.1, 0 - 0.1; -0.1, -0.1 - 0.05 = -0.15, -0.2 - 0.075 = -0.275.
    """
    expect(estimator("bilevel_gae")(TOKENS), [[1.0, 0.75], [-0.4], [0.2, 0.1, -0.2]])
    expect(estimator("bilevel_gae", token_lam=0.5)(TOKENS), [[0.55, 0.75], [-0.275], [0.2, 0.1, -0.2]])
    tokens = token_advantages(TOKENS, token_lam=0.5)
    expect([tokens[0, 0], tokens[0, 1], tokens[1, 0]], [[0.55, 0.9, 0], [0.75, 0, 0], [-0.275, -0.15, -0.1]])


def test_ragen_lets_the_last_token_stand_for_the_turn():
    """At lambda 0 the first turn's return is 0.5 + the next value 0.25, whatever stands for the turn itself.

    At lambda 1 and gamma 0.95 the last token's value of the first turn, 0.6, comes in and goes out again:
    return 0.5 + 0.95 * 1 = 1.45, above the first token's 0.5.
    """
    actual = estimator("bilevel_gae", lam=0.0, boundary="last")(TOKENS)
    assert actual[0].tolist() == pytest.approx([0.25, 0.75])
    three = GROUP.with_signals(token_values=[[[0.5], [0.1, 0.2, 0.4]], [[0]], [[0], [0], [0]]])
    actual = estimator("bilevel_gae", lam=0.0, boundary="last")(three)  # 0.5 + 0.4, less 0.5; then 1 less 0.1
    assert actual[0].tolist() == pytest.approx([0.4, 0.9])
    assert estimator("ragen")(TOKENS)[0].tolist() == pytest.approx([0.95, 0.75])
    mixed = estimator("ragen", lam=0.5, gamma=1.0)(TOKENS)  # surprises 0.15, 0.75: return 0.6 + 0.525, less 0.5
    assert mixed[0].tolist() == pytest.approx([0.625, 0.75])


def test_a_turn_without_reward_is_a_turn_all_the_same():
    """Seen in a released bi-level GAE: a reward of 0 marked no end of a turn, so its turn was lost."""
    group = Group.from_arrays(
        outcomes=[1, 0], turn_rewards=[[0, 0], [0, 0]], token_values=[[[0.5], [0.5]], [[0.5], [0.5]]]
    )
    expect(estimator("bilevel_gae")(group), [[0.5, 0.5], [-0.5, -0.5]])


def test_archer_is_the_critics_own_word():
    group = Group.from_arrays(values=[[0.5, 0.25, 0], [0.4]], action_values=[[0.75, 0.0], [0.4]])
    expect(estimator("archer")(group), [[0.25, -0.25], [0]])
    expect(estimator("sweet_rl")(group), [[0.25, -0.25], [0]])
    assert estimator("archer", gamma=0.5).options["gamma"] == 0.5, "the discount of the returns that its critic learns"


def test_gdpo_standardises_every_component_by_itself():
    """success 1, 0: +-Z. style 0, 4 at weight 0.5: -+Z/2. Together +-Z/2, whitened +-1; format does not differ.

    With an undecided group beside it the std over the batch is (Z/2)/sqrt(2).
    """
    parts = {"success": [1, 0], "format": [7, 7]}
    group = Group.from_arrays(
        outcome_components=parts, components={"style": [[0, 0], [4]]}, weights={"style": 0.5}, turns=[2, 1]
    )
    expect(estimator("gdpo")(group), [[1, 1], [-1]], 2 * ABOUT)
    same = Group.from_arrays(outcome_components={"success": [1, 1]}, turns=[1, 1])
    first, second = batch_of("gdpo", group, same)
    expect([np.array(a) for a in first], [[2**0.5] * 2, [-(2**0.5)]], 2 * ABOUT)
    assert second == [[0], [0]]


def test_mapo_mixes_two_deviations_by_how_much_the_group_agrees():
    """1, 1, 1, 0: p = 0.75, lambda = 1 - 4 * 0.1875 = 0.25, mean 0.75, std 0.5.

    0.75 * 0.25/0.5 + 0.25 * 0.25/0.75 = 0.375 + 1/12; 0.75 * -1.5 + 0.25 * -1 = -1.375.
    """
    actual = estimator("mapo")(Group.from_arrays(outcomes=[1, 1, 1, 0]))
    expect(actual, [[0.375 + 1 / 12]] * 3 + [[-1.375]], ABOUT)


def test_mapo_without_a_mean_has_no_share():
    """Returns 1 and -1: their mean 0 is no unit. Half succeeded, so lambda is 0 anyway; at success -2 it is 1."""
    group = Group.from_arrays(outcomes=[1, -1])
    expect(estimator("mapo")(group), [[Z], [-Z]], ABOUT)
    expect(estimator("mapo", success=-2.0)(group), [[0], [0]])
    expect(estimator("mapo", success=-1.0)(group), [[0], [0]])


def test_agentrl_whitens_over_the_groups_of_one_environment():
    """sql: +-Z and 0, 0, std 1/2: +-sqrt(2). shell, by itself: +-Z over Z."""
    sql = [Group.from_arrays(outcomes=o, environment="sql") for o in ([1, 0], [1, 1])]
    shell = Group.from_arrays(outcomes=[0, 5], environment="shell")
    first, second, third = batch_of("agentrl", sql[0], shell, sql[1])
    assert [a[0] for a in first] == pytest.approx([2**0.5, -(2**0.5)], abs=2 * ABOUT)
    assert [a[0] for a in second] == pytest.approx([-1, 1], abs=2 * ABOUT)
    assert [a[0] for a in third] == [0, 0]


def test_user_rl_shares_the_advantage_out_over_the_turns():
    """Above the mean: 0.9, -0.6, -0.3. With gamma 0.5, G = [1, 1], [0], [0.125, 0.25, 0.1], the last's mean 0.475/3."""
    plain = {"scale": "none", "score": "sum"}
    expect(estimator("user_rl", **plain)(GROUP), [[0.9, 0.9], [-0.6], [-0.3] * 3])
    actual = estimator("user_rl", turn_credit="return_to_go", gamma=0.5, **plain)(GROUP)
    expect(actual, [[0.9, 0.9], [0], [-0.3 * x / (0.475 / 3) for x in (0.125, 0.25, 0.1)]])
    discounted = estimator("user_rl", gamma=0.5, scale="none")(GROUP)
    expect(discounted, [[0.625, 0.625], [-0.375], [-0.25] * 3])


def test_user_rl_maps_rewards_to_credit_between_a_half_and_one():
    """0.5 + 0.5 (1 - exp(-2r))/(1 - exp(-2)): 0 gives 0.5, 1 (0 and the outcome) gives 1, 0.5 gives c."""
    c = 0.5 + 0.5 * (1 - math.exp(-1)) / (1 - math.exp(-2))
    actual = estimator("user_rl", turn_credit="exponential", scale="none", score="sum")(GROUP)
    mean = (c + 1) / 2
    expect(actual[:2], [[0.9 * c / mean, 0.9 / mean], [-0.6]])


def test_presets_are_our_estimators_under_a_published_name():
    expect(estimator("loop")(GROUP), [[1.35, 1.35], [-0.9], [-0.45] * 3])
    z = math.sqrt(1 / 3)  # outcomes 1, 0, 0: std sqrt((4 + 1 + 1)/9/2)
    expect(estimator("flow_grpo")(GROUP), [[2 / 3 / z] * 2, [-1 / 3 / z], [-1 / 3 / z] * 3], ABOUT)
    assert estimator("flow_grpo").name == "flow_grpo"
    assert estimator("flow_grpo", turn_weight=1.0).options["turn_weight"] == 1.0
