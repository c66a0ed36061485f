"""The arithmetic of an audit: agreement of credit with the counterfactual, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from agentgym.credit import Group
from agentgym.methods.credit_audit.agreement import agreement, counterfactual_credit, group_statistics, spearman


def test_counterfactual_credit_is_the_rise_in_value_and_the_turns_own_reward():
    """r + V' - V: 0.1 + 0.6 - 0.5, missing counts 0: 0.2 - 0.6, and 0 + 1 - 0.2."""
    actual = counterfactual_credit(np.array([0.1, np.nan, 0.0]), np.array([0.5, 0.6, 0.2, 1.0]))
    np.testing.assert_allclose(actual, [0.2, -0.4, 0.8])


@pytest.mark.parametrize("seed", range(5))
def test_the_rank_correlation_is_scipys_ties_included(seed: int):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, 30).astype(float), rng.integers(0, 4, 30).astype(float)
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


def test_no_correlation_where_one_side_does_not_vary():
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))
    assert np.isnan(spearman(np.ones(1), np.ones(1)))


def test_signs_are_compared_where_both_have_one():
    """Pairs (1, 2), (-1, 1), (0, 1), (2, 3): of the three with two signs, two agree."""
    actual = agreement([np.array([1.0, -1.0]), np.array([0.0, 2.0])], [np.array([2.0, 1.0]), np.array([1.0, 3.0])])
    assert (actual.turns, actual.signed) == (4, 3)
    assert actual.sign == pytest.approx(2 / 3)
    assert actual.sign_low <= actual.sign <= actual.sign_high


def test_credit_of_other_turns_is_refused():
    with pytest.raises(ValueError, match="arrays of advantages and of counterfactual credit have different"):
        agreement([np.zeros(2)], [np.zeros(3)])


def test_facts_of_groups():
    """Two groups: one without any gradient. Keys a a | a b: a is shared, b is alone."""
    silent = Group.from_arrays(outcomes=[1, 1], state_keys=[["a"], ["a"]])
    loud = Group.from_arrays(outcomes=[1, 0], state_keys=[["a", "b"], ["a"]])
    advantages = [[np.zeros(1), np.zeros(1)], [np.array([1.0, 2.0]), np.array([-1.0])]]
    facts = group_statistics([silent, loud], advantages)
    assert facts.zero_gradient == 0.5
    assert facts.singletons == pytest.approx(1 / 5)
    assert facts.variance == (pytest.approx(0.5), 0.0)  # 0, 0, 1, -1 at turn 0; 2 alone at turn 1


def test_without_state_keys_the_share_of_singletons_is_nan():
    group = Group.from_arrays(outcomes=[1, 0])
    assert np.isnan(group_statistics([group], [[np.ones(1), np.ones(1)]]).singletons)
