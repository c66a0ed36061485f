"""Identities of the published estimators over random groups: what they become when a part of them is switched off."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from credit_cases import few, identical, make, same
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import Group
from agentgym.credit.arithmetic import averaging_weights
from agentgym.credit.contract import batch_advantages
from agentgym.errors import CreditError, MissingSignalError
from agentgym.methods.credit.bilevel_gae import token_advantages
from agentgym.registry import names
from agentgym.testing.estimators import random_signals

seeds = st.integers(0, 2**32 - 1)
PUBLISHED = [
    "agentrl",
    "archer",
    "bilevel_gae",
    "flow_grpo",
    "gdpo",
    "gigpo",
    "gtpo",
    "hgpo",
    "hrpo",
    "hybrid",
    "kevin",
    "loop",
    "mapo",
    "mt_grpo_two_segment",
    "opo",
    "otb",
    "ragen",
    "rebn",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "rtmc",
    "sweet_rl",
    "turn_gae",
    "user_rl",
]


def signals(seed: int, **replaced: object) -> dict:
    rng = np.random.default_rng(seed)
    return {**random_signals(rng, size=int(rng.integers(2, 7))), **replaced}


def group_of(seed: int, **replaced: object) -> Group:
    return Group.from_arrays(**signals(seed, **replaced))


def one_turn_each(seed: int) -> Group:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    return Group.from_arrays(
        outcomes=list(rng.integers(0, 5, size) / 4),
        turn_rewards=[[x] for x in rng.integers(-4, 5, size) / 4],
        tool_turn=[[False]] * size,
        state_keys=[["s"]] * size,
        lengths=[[3]] * size,
    )


def distinct(group: Group) -> list[list[str]]:
    return [[f"{i}.{k}" for k in range(count)] for i, count in enumerate(group.turns)]


@pytest.mark.parametrize("name", PUBLISHED)
@few
@given(first=seeds, second=seeds)
def test_groups_change_each_other_only_where_the_batch_is_the_scope(name, first, second):
    """P2."""
    chosen, groups = make(name), [group_of(first), group_of(second)]
    together = batch_advantages(chosen, groups)
    if chosen.scope == "group":
        for actual, group in zip(together, groups, strict=True):
            identical(actual, chosen(group))
    backwards = batch_advantages(chosen, groups[::-1])[::-1]
    for actual, other in zip(together, backwards, strict=True):
        same(actual, other, tolerance=1e-9)


@pytest.mark.parametrize("name", [n for n in PUBLISHED if make(n).scope == "batch"])
def test_a_batch_that_cannot_be_compared_gets_zero(name):
    """R2: one valid trajectory in all; with a whole group beside it, it is left out or compared with that."""
    lone = Group.from_arrays(outcomes=[1, None], turns=[2, 1], valid=[True, False], outcome_components={"s": [1, None]})
    (credit,) = make(name).batch([lone])
    assert [a.tolist() for a in credit.advantages] == [[0, 0], [0]]
    assert credit.flags == ("too_few", "failed")
    pair = Group.from_arrays(outcomes=[1, 0], outcome_components={"s": [1, 0]})
    beside = make(name).batch([lone, pair])
    assert beside[1].advantages[0][0] > 0
    if name in ("gdpo", "agentrl", "reinforce_pp_baseline"):
        assert beside[0].flags == ("too_few", "failed")
        same(beside[1].advantages, make(name)(pair))


@few
@given(first=seeds, second=seeds)
def test_whitened_advantages_have_mean_0_and_variance_1_with_equal_weight_per_trajectory(first, second):
    groups = [group_of(first), group_of(second)]
    actual = [np.concatenate(value) for value in batch_advantages(make("reinforce_pp"), groups)]
    weights = [averaging_weights(group, "trajectories")[group.turn_mask] for group in groups]
    flat, weight = np.concatenate(actual), np.concatenate(weights)
    assert weight.sum() == pytest.approx(sum(group.size for group in groups))
    assert np.average(flat, weights=weight) == pytest.approx(0, abs=1e-9)
    assert np.average(flat**2, weights=weight) == pytest.approx(1, abs=1e-4)


@few
@given(seed=seeds)
def test_with_one_turn_each_the_forms_meet(seed):
    """P6."""
    group = one_turn_each(seed)
    for name, options in [
        ("gtpo", {}),
        ("mt_grpo_two_segment", {}),
        ("user_rl", {}),
        ("hybrid", {"outcome_share": 0.0}),
        ("gigpo", {"step_weight": 0.0}),
        ("gigpo", {"step_weight": 0.0, "alone": "group"}),
    ]:
        identical(make(name, **options)(group), make("grpo")(group))
    same(make("kevin")(group), make("grpo", ddof=0)(group), tolerance=1e-9)
    same(make("hgpo")(group), make("grpo", ddof=0)(group), tolerance=1e-9)
    same(make("opo")(group), make("dr_grpo")(group))
    same(make("opo", baseline="loo")(group), make("rloo")(group))


@few
@given(seed=seeds)
def test_switched_off_every_part_leaves_the_rest_bit_for_bit(seed):
    """P6."""
    group = group_of(seed)
    identical(make("gigpo", step_weight=0.0)(group), make("grpo")(group))
    identical(make("gigpo", step_weight=0.0, baseline="loo", scale="none")(group), make("rloo")(group))
    identical(make("user_rl", score="sum")(group), make("grpo")(group))
    identical(make("hybrid", outcome_share=0.0, gamma=1.0)(group), make("gtpo")(group))
    identical(make("flow_grpo")(group), make("grpo", turn_weight=0.0)(group))
    identical(make("loop")(group), make("rloo")(group))
    identical(make("hrpo", turn_weight=0.0)(group), make("flow_grpo")(group))


@few
@given(seed=seeds)
def test_gigpo_with_every_state_met_once_is_the_episode_estimator_bit_for_bit(seed):
    group = group_of(seed)
    singleton = group.with_signals(state_keys=distinct(group))
    identical(make("gigpo")(singleton), make("grpo")(group))
    unknown = group.with_signals(state_keys=[[None] * count for count in group.turns])
    identical(make("gigpo")(unknown), make("grpo")(group))


@few
@given(seed=seeds)
def test_gigpo_with_one_state_compares_all_turns_with_each_other(seed):
    group = group_of(seed)
    pooled = group.with_signals(state_keys=[["s"] * count for count in group.turns])
    actual = make("gigpo", gamma=1.0, scale="none")(pooled)
    turn_returns = [
        [np.nansum(r[k : len(r)]) + o for k in range(n)]
        for r, o, n in zip(group.turn_rewards, group.outcomes, group.turns, strict=True)
    ]
    mean = np.mean([w for row in turn_returns for w in row])
    step = [np.array(row) - mean for row in turn_returns]
    same(actual, [a + b for a, b in zip(make("dr_grpo")(group), step, strict=True)], tolerance=1e-9)


@few
@given(seed=seeds, gamma=st.sampled_from([1.0, 0.5]))
def test_gigpo_by_loops_is_gigpo_by_arrays(seed, gamma):
    group = group_of(seed)
    turn_returns = worth_of(group, gamma)
    expected = []
    for i, (row, episode) in enumerate(zip(turn_returns, make("rloo")(group), strict=True)):
        actual = []
        for k, own in enumerate(row):
            others = [
                turn_returns[j][m]
                for j in range(group.size)
                if j != i
                for m in range(group.turns[j])
                if group.state_keys[j][m] == group.state_keys[i][k]
            ]
            actual.append(episode[k] + 0.5 * (own - np.mean(others) if others else 0.0))
        expected.append(np.array(actual))
    actual = make("gigpo", gamma=gamma, baseline="loo", scale="none", step_weight=0.5)(group)
    same(actual, expected, tolerance=1e-9)


@few
@given(seed=seeds, history=st.integers(0, 3), alpha=st.sampled_from([0.0, 1.0, 2.0]))
def test_hgpo_by_loops_is_hgpo_by_arrays(seed, history, alpha):
    group = group_of(seed)
    turn_returns, levels = worth_of(group, 0.95), defaultdict(list)
    for i, row in enumerate(turn_returns):
        for k, own in enumerate(row):
            for h in range(1, min(history + 1, k + 1) + 1):
                levels[group.state_keys[i][k + 1 - h : k + 1]].append((i, k, own))
    items = defaultdict(list)
    for key, members in levels.items():
        mean = np.mean([own for _, _, own in members])
        std = np.std([own for _, _, own in members])
        for i, k, own in members:
            if std > 1e-6:
                items[i, k].append((len(key), (own - mean) / (std + 1e-6)))
    expected = [
        np.array(
            [
                sum(h**alpha * a for h, a in items[i, k]) / sum(h**alpha for h, _ in items[i, k])
                if items[i, k]
                else 0.0
                for k in range(len(row))
            ]
        )
        for i, row in enumerate(turn_returns)
    ]
    same(make("hgpo", history=history, alpha=alpha)(group), expected, tolerance=1e-7)


def worth_of(group: Group, gamma: float) -> list[list[float]]:
    """Returns-to-go written out with lists."""
    actual = []
    for row, outcome, count in zip(group.turn_rewards, group.outcomes, group.turns, strict=True):
        rewards = [0.0 if math.isnan(x) else x for x in row[:count]]
        last = count - 1
        actual.append(
            [
                sum(gamma ** (m - k) * rewards[m] for m in range(k, count)) + gamma ** (last - k) * outcome
                for k in range(count)
            ]
        )
    return actual


@few
@given(seed=seeds)
def test_turn_gae_telescopes(seed):
    """P13: at gamma and lambda 1 nothing is left of the values in between."""
    group = group_of(seed)
    expected = [
        np.array(row) - values[: len(row)] for row, values in zip(worth_of(group, 1.0), group.values, strict=True)
    ]
    same(make("turn_gae")(group), expected, tolerance=1e-9)


@few
@given(seed=seeds, lam=st.sampled_from([0.0, 0.5, 1.0]), gamma=st.sampled_from([0.5, 1.0]))
def test_bilevel_gae_with_one_token_a_turn_is_turn_gae(seed, lam, gamma):
    given_signals = signals(seed)
    rows = [[[v] for v in row[:-1]] for row in given_signals["values"]]
    group = Group.from_arrays(**{**given_signals, "token_values": rows})
    options = {"lam": lam, "gamma": gamma, "truncated": "bootstrap"}
    for boundary in ("first", "last"):
        actual = make("bilevel_gae", boundary=boundary, token_lam=0.3, token_gamma=0.7, **options)(group)
        same(actual, make("turn_gae", **options)(group))


@few
@given(seed=seeds, lam=st.sampled_from([0.0, 0.5, 1.0]), boundary=st.sampled_from(["first", "last"]))
def test_the_turns_number_is_that_of_its_first_token(seed, lam, boundary):
    rng, given_signals = np.random.default_rng(seed), signals(seed)
    tokens = [[list(rng.normal(size=int(rng.integers(1, 5)))) for _ in row] for row in given_signals["lengths"]]
    group = Group.from_arrays(**{**given_signals, "token_values": tokens})
    options = {"token_lam": lam, "gamma": 0.9, "lam": 0.8, "boundary": boundary}
    every = token_advantages(group, **options)
    same(make("bilevel_gae", **options)(group), [row[:n, 0] for row, n in zip(every, group.turns, strict=True)])
    assert not every[np.isnan(group.token_values)].any()


@few
@given(seed=seeds)
def test_a_missing_value_is_named(seed):
    given_signals = signals(seed)
    given_signals["values"][0][0] = None
    with pytest.raises(CreditError, match="values of the 0th valid trajectory is missing for turn 0"):
        make("turn_gae")(Group.from_arrays(**given_signals))
    cut = signals(seed)
    cut["truncated"] = [True] * len(cut["truncated"])
    cut["values"][-1][-1] = None
    with pytest.raises(CreditError, match="Give one value more than turns, or set truncated='scored'"):
        make("turn_gae", truncated="bootstrap")(Group.from_arrays(**cut))
    empty = signals(seed)
    empty["token_values"] = [[[] for _ in row] for row in empty["token_values"]]
    with pytest.raises(CreditError, match="token_values of the 0th valid trajectory is missing for turn 0"):
        make("bilevel_gae")(Group.from_arrays(**empty))


@few
@given(seed=seeds, scale=st.sampled_from([0.001, 1000.0]))
def test_gdpo_is_blind_to_the_scale_of_a_component_and_to_one_that_does_not_differ(seed, scale):
    base = signals(seed)
    parts = base["outcome_components"]
    spread = {**base, "outcome_components": {**parts, "style": [scale * x for x in parts["style"]]}}
    constant = {**base, "outcome_components": {**parts, "manners": [0.7] * len(parts["style"])}}
    actual = make("gdpo")(Group.from_arrays(**base))
    same(make("gdpo")(Group.from_arrays(**spread)), actual, tolerance=1e-9)
    identical(make("gdpo")(Group.from_arrays(**constant)), actual)


@few
@given(seed=seeds)
def test_user_rl_gives_a_trajectory_its_advantage_on_average(seed):
    group = group_of(seed)
    returns = make("user_rl")(group)
    for credit in ("return_to_go", "exponential"):
        for actual, expected in zip(make("user_rl", turn_credit=credit)(group), returns, strict=True):
            assert actual.mean() == pytest.approx(expected[0], abs=1e-6) or not actual.any()


@pytest.mark.parametrize("name", PUBLISHED)
@few
@given(seed=seeds, factor=st.sampled_from([1e-9, 1e9]))
def test_large_and_tiny_signals_stay_finite(name, seed, factor):
    """R10."""
    base = signals(seed)
    for field in ("turn_rewards", "values", "action_values"):
        base[field] = [[None if x is None else factor * x for x in row] for row in base[field]]
    base["outcomes"] = [factor * x for x in base["outcomes"]]
    assert all(np.isfinite(a).all() for a in make(name)(Group.from_arrays(**base)))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_signal_that_is_missing_is_named_with_its_remedy(name):
    base = signals(7)
    for field in make(name).requires:
        with pytest.raises(MissingSignalError, match=rf"has no signal {field}\..*\. \w"):
            make(name)(Group.from_arrays(**{**base, field: None}))


def test_every_published_estimator_is_registered():
    assert set(PUBLISHED) <= set(names("estimators"))


def test_counting_tokens_needs_lengths():
    group = Group.from_arrays(outcomes=[1, 0])
    with pytest.raises(MissingSignalError, match=r"has no signal lengths.*token_ids"):
        make("reinforce_pp", weigh="tokens")(group)
