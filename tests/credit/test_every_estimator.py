"""The properties P1 to P17 of every registered estimator, by what it declares and what credit_promises.py says of it.

Random groups carry every signal. A new estimator without an entry in credit_promises.py fails here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from credit_cases import few, identical, make, same
from credit_promises import PROMISES
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import Group
from agentgym.credit.contract import batch_advantages
from agentgym.registry import names
from agentgym.testing.estimators import random_signals

seeds = st.integers(0, 2**32 - 1)
every = pytest.mark.parametrize("name", sorted(PROMISES))

UNITS = {
    "outcomes",
    "turn_rewards",
    "components",
    "outcome_components",
    "values",
    "action_values",
    "token_values",
    "continuations",
    "counterfactuals",
    "contributions",
    "potentials",
}
PREDICTIONS = {"outcomes", "outcome_components", "values", "action_values", "token_values", "continuations"}
PREDICTIONS |= {"counterfactuals"}

Signals = dict[str, Any]


def with_promise(**properties: object) -> list[str]:
    return [
        name
        for name, promise in sorted(PROMISES.items())
        if all(getattr(promise, k) == v for k, v in properties.items())
    ]


def signals(seed: int) -> Signals:
    """Every signal of two to six trajectories that all came to their end."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    return {**random_signals(rng, size=size), "truncated": [False] * size}


def group_of(given_signals: Signals) -> Group:
    return Group.from_arrays(**given_signals)


def mapped(signal: Any, change: Callable[[float], float]) -> Any:
    """Every number of nested rows changed; None stays."""
    if isinstance(signal, dict):
        return {key: mapped(part, change) for key, part in signal.items()}
    if isinstance(signal, (list, tuple)):
        return [mapped(part, change) for part in signal]
    return None if signal is None else change(signal)


def rows_of(signal: Any, rows: list[int]) -> Any:
    """The rows of some trajectories, of named parts too."""
    return (
        {key: rows_of(part, rows) for key, part in signal.items()}
        if isinstance(signal, dict)
        else [signal[i] for i in rows]
    )


def test_every_registered_estimator_is_held_to_its_properties():
    ours = {name for name in names("estimators") if not make(name).function.__module__.startswith("test_")}
    assert ours == set(PROMISES), "say in credit_promises.py what a new estimator promises"


@every
@few
@given(seed=seeds)
def test_the_order_of_trajectories_does_not_matter(name, seed):
    """P1."""
    given_signals, chosen = signals(seed), make(name)
    positions = [int(i) for i in np.random.default_rng(seed).permutation(len(given_signals["outcomes"]))]
    shuffled = {field: rows_of(rows, positions) for field, rows in given_signals.items()}
    actual = chosen(group_of(given_signals))
    same(chosen(group_of(shuffled)), [actual[p] for p in positions], tolerance=1e-9)


@every
@few
@given(first=seeds, second=seeds)
def test_only_a_batch_estimator_looks_at_other_groups(name, first, second):
    """P2, by the declared scope."""
    chosen, groups = make(name), [group_of(signals(first)), group_of(signals(second))]
    together = batch_advantages(chosen, groups)
    if chosen.scope == "group":
        for actual, group in zip(together, groups, strict=True):
            identical(actual, chosen(group))
    else:
        assert [len(actual) for actual in together] == [group.size for group in groups]


@pytest.mark.parametrize("name", with_promise(shift=True))
@few
@given(seed=seeds, shift=st.integers(-128, 128).map(lambda n: n / 64))
def test_an_outcome_that_all_get_and_all_expect_changes_nothing(name, seed, shift):
    """P3."""
    before = signals(seed)
    after = {f: mapped(rows, lambda x: x + shift) if f in PREDICTIONS else rows for f, rows in before.items()}
    same(make(name)(group_of(after)), make(name)(group_of(before)), tolerance=1e-8)


@pytest.mark.parametrize("name", with_promise(scale="units") + with_promise(scale="deviations"))
@few
@given(seed=seeds, factor=st.sampled_from([0.5, 2.0, 16.0]))
def test_larger_rewards_scale_advantages_or_leave_them(name, seed, factor):
    """P4."""
    before = signals(seed)
    after = {f: mapped(rows, lambda x: x * factor) if f in UNITS else rows for f, rows in before.items()}
    actual, base = make(name)(group_of(after)), make(name)(group_of(before))
    if PROMISES[name].scale == "units":
        same(actual, [factor * a for a in base], tolerance=1e-9)
    else:
        same(actual, base, tolerance=5e-3)


@pytest.mark.parametrize("name", with_promise(zero_sum=True))
@few
@given(seed=seeds)
def test_advantages_of_the_trajectories_sum_to_zero(name, seed):
    """P5."""
    assert sum(a.mean() for a in make(name)(group_of(signals(seed)))) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("name", [name for name, promise in sorted(PROMISES.items()) if promise.one_turn])
@few
@given(seed=seeds)
def test_with_one_turn_each_it_is_a_trajectory_estimator_bit_for_bit(name, seed):
    """P6. Where each has one turn, all have the same past: the same potential, no gain to speak of."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    signal = Group.from_arrays(
        outcomes=list(rng.integers(-8, 9, size) / 8),
        turn_rewards=[[x] for x in rng.integers(-8, 9, size) / 8],
        contributions=[[x] for x in rng.normal(size=size)],
        hindsight=[[x] for x in rng.normal(size=size)],
        gold_logprobs=[[-1.0, x] for x in -rng.random(size)],
        counterfactuals=[{(): x, (0,): 1 - x} for x in rng.random(size)],
    )
    identical(make(name)(signal), make(str(PROMISES[name].one_turn))(signal))


@every
@few
@given(seed=seeds, other=seeds)
def test_a_failed_trajectory_does_not_change_other_advantages(name, seed, other):
    """P8 and P9: neither its numbers, nor the padding that its length adds. It gets 0."""
    mine, more, chosen = signals(seed), signals(other), make(name)
    size, position = len(mine["outcomes"]), seed % (len(mine["outcomes"]) + 1)
    joined = {field: _with(rows, more[field], position) for field, rows in mine.items()}
    joined["valid"] = [i != position for i in range(size + 1)]
    actual = chosen(group_of(joined))
    assert not actual[position].any()
    same(actual[:position] + actual[position + 1 :], chosen(group_of(mine)), tolerance=1e-12)


def _with(rows: Any, more: Any, position: int) -> Any:
    if isinstance(rows, dict):
        return {key: _with(part, more[key], position) for key, part in rows.items()}
    return [*rows[:position], more[0], *rows[position:]]


@every
@few
@given(seed=seeds, size=st.sampled_from([1.0, 1e4, 1e9]))
def test_finite_signals_give_finite_advantages_one_per_turn(name, seed, size):
    """P10, P11, R10. Largest rewards of 1e9; the kit of any estimator checks the rest (check_estimator)."""
    raised = {f: mapped(rows, lambda x: x * size) if f in UNITS else rows for f, rows in signals(seed).items()}
    group = group_of(raised)
    actual = make(name)(group)
    assert [len(a) for a in actual] == group.turns.tolist()
    assert all(a.dtype == np.float64 and np.isfinite(a).all() for a in actual)


@pytest.mark.parametrize("name", with_promise(bounded=True))
@few
@given(seed=seeds)
def test_standardised_advantages_are_bounded_by_the_size_of_the_group(name, seed):
    """P11."""
    group = group_of(signals(seed))
    bound = (group.size - 1) / math.sqrt(group.size)
    assert all(np.abs(a).max() <= bound + 1e-9 for a in make(name)(group))


@pytest.mark.parametrize("name", with_promise(monotone=True))
@few
@given(seed=seeds, gain=st.integers(1, 64).map(lambda n: n / 16))
def test_a_better_outcome_never_lowers_the_own_advantages(name, seed, gain):
    """P12."""
    before = signals(seed)

    def raised(rows: Any) -> Any:
        if isinstance(rows, dict):
            return {key: raised(part) for key, part in rows.items()}
        return [rows[0] + gain, *rows[1:]]

    after = {f: raised(rows) if f in ("outcomes", "outcome_components") else rows for f, rows in before.items()}
    change = make(name)(group_of(after))[0] - make(name)(group_of(before))[0]
    assert change.min() >= -1e-9


@pytest.mark.parametrize("name", with_promise(same_sign=True))
@few
@given(seed=seeds)
def test_every_turn_has_the_sign_of_its_trajectory(name, seed):
    """P15, with turn rewards that do not drown in rounding."""
    group = group_of(signals(seed))
    returns = group.outcomes + np.nansum(group.turn_rewards, axis=1)
    for a, above in zip(make(name)(group), returns - returns.mean(), strict=True):
        if abs(above) > 1e-6:
            assert (np.sign(a) == np.sign(above)).all()


@every
@few
@given(seed=seeds)
def test_single_precision_signals_are_close_enough(name, seed):
    """P17: and the same group twice gives the same bits."""
    before, chosen = signals(seed), make(name)
    rounded = {f: mapped(rows, lambda x: float(np.float32(x))) if f in UNITS else rows for f, rows in before.items()}
    actual = chosen(group_of(before))
    identical(actual, chosen(group_of(before)))
    for a, b in zip(actual, chosen(group_of(rounded)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


# P13, telescoping: what is paid turn by turn is what was to be paid --------------------------------------------------


@few
@given(seed=seeds)
def test_vine_sums_to_the_return_minus_the_first_value(seed):
    """Sum of r_k + V_{k+1} - V_k: R - V_0."""
    given_signals = signals(seed)
    group = group_of(given_signals)
    returns = group.outcomes + np.nansum(group.turn_rewards, axis=1)
    for i, a in enumerate(make("vine")(group)):
        assert a.sum() == pytest.approx(returns[i] - np.mean(given_signals["continuations"][i][0]), abs=1e-9)


@few
@given(seed=seeds)
def test_a_critic_or_a_potential_that_is_paid_back_moves_the_first_turn_alike(seed):
    """turn_gae at ones is G_k - V_k; potential shaping of all of them is G_k - Phi_k above the same of the others."""
    group = group_of(signals(seed))
    turn_returns = [
        np.cumsum(np.nan_to_num(r[:k][::-1]))[::-1] for r, k in zip(group.turn_rewards, group.turns, strict=True)
    ]
    for i, a in enumerate(make("turn_gae")(group)):
        np.testing.assert_allclose(a, turn_returns[i] + group.outcomes[i] - group.values[i, : len(a)], atol=1e-9)


@few
@given(seed=seeds)
def test_spa_shares_sum_to_the_outcome(seed):
    """P14, efficiency."""
    from agentgym.methods.credit.spa import shared_outcome

    group = group_of(signals(seed))
    np.testing.assert_allclose(
        shared_outcome(group, group.outcomes, 1.0, "last").sum(axis=1), group.outcomes, atol=1e-9
    )


@few
@given(seed=seeds)
def test_igpo_pays_every_gain_and_the_outcome(seed):
    """Gains of all turns but the last telescope to p_K - p_1; each of the K_i rewards is taken its mean off."""
    group = group_of(signals(seed))
    p, last = np.exp(group.gold_logprobs), group.turns - 1
    paid = p[np.arange(group.size), last] - p[:, 0] + group.outcomes
    expected = paid - group.turns * paid.sum() / group.turns.sum()
    np.testing.assert_allclose([a[0] for a in make("igpo", scale="none")(group)], expected, atol=1e-9)
