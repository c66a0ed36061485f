"""Leave-one-out and Shapley values: axioms, sampling, and how they become advantages."""

from __future__ import annotations

import numpy as np
import pytest
from credit_cases import expect, few
from hypothesis import given
from hypothesis import strategies as st

from agentgym.credit import Group, estimator
from agentgym.errors import CreditError, MissingSignalError
from agentgym.methods.credit.counterfactual import (
    leave_one_out_values,
    sampled_shapley_values,
    shapley_of_known,
    shapley_values,
)


def subsets(turns: int) -> list[frozenset[int]]:
    return [frozenset(k for k in range(turns) if mask >> k & 1) for mask in range(2**turns)]


def one_and_either(coalition: frozenset[int]) -> float:
    """Turn 0 is needed, and one of turns 1 and 2."""
    return float(0 in coalition and bool(coalition & {1, 2}))


GAMES = st.integers(1, 5).flatmap(
    lambda k: st.lists(st.integers(-64, 64).map(lambda n: n / 64), min_size=2**k, max_size=2**k).map(
        lambda values: dict(zip(subsets(k), values, strict=True))
    )
)


def turns_of(game) -> int:
    return len(max(game, key=len))


def test_values_of_a_needed_turn_and_of_two_interchangeable_turns():
    """Orders in which turn 0 tips the scale: it must come after 1 or 2, 4 of 6. Turn 1: after 0, before 2, 1 of 6."""
    np.testing.assert_allclose(shapley_values(one_and_either, 3), [4 / 6, 1 / 6, 1 / 6], atol=1e-15)
    np.testing.assert_array_equal(leave_one_out_values(one_and_either, 3), [1, 0, 0])


@few
@given(game=GAMES)
def test_shapley_values_sum_to_the_return_of_the_episode(game):
    """P14, efficiency."""
    turns = turns_of(game)
    total = game[frozenset(range(turns))] - game[frozenset()]
    assert shapley_values(game.__getitem__, turns).sum() == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("game", [lambda s: float({0, 1} <= s), lambda s: float(bool(s))], ids=["and", "or"])
def test_leaving_one_out_does_not_sum_to_anything(game):
    """P14: 2 instead of 1 where both are needed, 0 where either would do."""
    assert leave_one_out_values(game, 2).sum() in (2, 0)
    assert shapley_values(game, 2).sum() == 1


@few
@given(game=GAMES, null=st.integers(0, 4))
def test_a_turn_that_changes_nothing_gets_zero(game, null):
    """P14: what a repeated read is."""
    turns = turns_of(game)
    null %= turns
    same = {coalition: game[coalition - {null}] for coalition in game}
    assert shapley_values(same.__getitem__, turns)[null] == 0
    assert leave_one_out_values(same.__getitem__, turns)[null] == 0


@few
@given(game=GAMES)
def test_turns_that_can_be_exchanged_are_worth_the_same(game):
    """P14, symmetry: a game of the number of turns alone."""
    turns = turns_of(game)
    by_size = {coalition: game[frozenset(range(len(coalition)))] for coalition in game}
    phi = shapley_values(by_size.__getitem__, turns)
    np.testing.assert_allclose(phi, phi[0], atol=1e-12)


@few
@given(game=GAMES, factor=st.sampled_from([-2.0, 0.5, 3.0]))
def test_shapley_values_are_linear_in_the_return(game, factor):
    turns = turns_of(game)
    both = {coalition: factor * value + one_and_either(coalition) for coalition, value in game.items()}
    expected = factor * shapley_values(game.__getitem__, turns) + shapley_values(one_and_either, turns)
    np.testing.assert_allclose(shapley_values(both.__getitem__, turns), expected, atol=1e-12)


@few
@given(game=GAMES)
def test_all_known_sets_give_the_exact_value(game):
    turns = turns_of(game)
    np.testing.assert_allclose(shapley_of_known(game, turns), shapley_values(game.__getitem__, turns), atol=1e-12)


def test_sampled_values_come_with_an_error_that_is_true():
    """200 estimates from 8 orders each: their mean is right, and their spread is the error that they report."""
    rng = np.random.default_rng(0)
    numbers = {coalition: float(rng.normal()) for coalition in subsets(5)}
    exact = shapley_values(numbers.__getitem__, 5)
    runs = [sampled_shapley_values(numbers.__getitem__, 5, orders=8, rng=rng) for _ in range(200)]
    estimates, errors = np.array([r[0] for r in runs]), np.array([r[1] for r in runs])
    np.testing.assert_allclose(estimates.mean(axis=0), exact, atol=4 * estimates.std() / np.sqrt(200))
    np.testing.assert_allclose(np.sqrt((errors**2).mean(axis=0)), estimates.std(axis=0), rtol=0.25)
    np.testing.assert_allclose(estimates.sum(axis=1), numbers[frozenset(range(5))] - numbers[frozenset()], atol=1e-12)


def test_an_order_and_its_reverse_cancel_what_is_additive_in_pairs():
    """v = (turns played)^2: an order adds 1, 3, 5, its reverse 5, 3, 1. One pair is exact, and says so."""
    estimates, error = sampled_shapley_values(lambda s: float(len(s) ** 2), 3, orders=4, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(estimates, [3, 3, 3])
    np.testing.assert_array_equal(error, [0, 0, 0])


def test_every_replay_is_requested_once():
    coalitions = []
    sampled_shapley_values(lambda s: float(coalitions.append(s) or 0), 3, orders=20, rng=np.random.default_rng(0))
    assert len(coalitions) == len(set(coalitions)) == 8


def test_values_that_cannot_be_computed_are_refused():
    with pytest.raises(CreditError, match="17 turns would need 131072 replays"):
        shapley_values(lambda s: 0.0, 17)
    for orders in (0, 2, 5):
        with pytest.raises(CreditError, match="so give an even number of at least 4"):
            sampled_shapley_values(lambda s: 0.0, 3, orders=orders, rng=np.random.default_rng(0))
    with pytest.raises(CreditError, match="the values do not show what turn 1 adds"):
        shapley_of_known({frozenset(): 0.0, frozenset({0}): 1.0}, 2)


REPLAYED = Group.from_arrays(
    outcomes=[1, 0],
    turns=[3, 1],
    counterfactuals=[{coalition: one_and_either(coalition) for coalition in subsets(3)}, {(0,): 0, (): 0}],
)


def test_the_loss_without_a_turn_is_added_to_the_outcome():
    """phi 1, 0, 0 with mean 1/3; the outcome gives 1 and -1."""
    expect(estimator("leave_one_turn_out")(REPLAYED), [[5 / 3, 2 / 3, 2 / 3], [-1]])


def test_shapley_credit_is_added_to_the_outcome():
    """phi 2/3, 1/6, 1/6 with mean 1/3."""
    expect(estimator("shapley")(REPLAYED), [[4 / 3, 5 / 6, 5 / 6], [-1]])


def test_credit_can_be_paid_as_rewards_that_sum_to_the_return():
    """Rewards 2/3, 1/6, and what is left, 1/6: to go 1, 1/3, 1/6. The other was worth 0 from the start."""
    expect(estimator("shapley", credit="returned")(REPLAYED), [[1, 1 / 3, 1 / 6], [-1]])


def test_a_replay_that_is_missing_is_named():
    short = REPLAYED.with_signals(counterfactuals=[{(0, 1, 2): 1, (1, 2): 0, (0, 2): 1}, {(0,): 0, (): 0}])
    with pytest.raises(MissingSignalError, match=r"the 0th valid trajectory lacks the turns \[0, 1\]"):
        estimator("leave_one_turn_out")(short)
    with pytest.raises(
        CreditError, match="the 0th valid trajectory cannot be used: the values do not show what turn 2 adds"
    ):
        estimator("shapley")(short)
