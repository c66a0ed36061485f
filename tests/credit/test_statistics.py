"""Means and spreads over trajectories, on the cases where floating point or an empty column bites."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.credit.arithmetic import baseline_of, centred, divide_by_std, stable_std, standardised


def test_the_others_of_each_row_are_averaged():
    """(2+6)/2, (1+6)/2, (1+2)/2."""
    np.testing.assert_array_equal(baseline_of(np.array([1.0, 2.0, 6.0]), "loo"), [4.0, 3.5, 1.5])


def test_a_row_outside_gets_the_mean_of_those_inside():
    mask = np.array([True, True, False])
    np.testing.assert_array_equal(baseline_of(np.array([1.0, 3.0, 99.0]), "loo", mask), [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(baseline_of(np.array([1.0, 3.0, 99.0]), "mean", mask), [2.0, 2.0, 2.0])


def test_where_there_is_no_other_the_mean_is_nan():
    mask = np.array([[True, True], [False, True]])
    actual = baseline_of(np.array([[1.0, 2.0], [5.0, 4.0]]), "loo", mask)
    np.testing.assert_array_equal(actual, [[np.nan, 4.0], [1.0, 2.0]])


def test_an_empty_column_is_no_warning():
    mask = np.zeros((2, 1), bool)
    assert np.isnan(baseline_of(np.ones((2, 1)), "loo", mask)).all()
    assert stable_std(np.ones((2, 1)), ddof=1, mask=mask).tolist() == [0.0]


@settings(deadline=None)
@given(value=st.floats(-1e6, 1e6), size=st.integers(2, 9))
def test_equal_scores_are_exactly_their_own_mean(value, size):
    """0.1 + 0.1 + 0.1 over 3 is not 0.1 in floating point; an advantage of 1e-17 is not 0."""
    scores = np.full(size, value)
    np.testing.assert_array_equal(centred(scores, "mean"), 0.0)
    np.testing.assert_array_equal(centred(scores, "loo"), 0.0)
    assert stable_std(scores, ddof=1) == 0


def test_a_large_common_offset_costs_no_precision():
    scores = np.array([0.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(centred(1e9 + scores, "loo"), centred(scores, "loo"))


def test_a_spread_of_rounding_is_no_spread():
    assert stable_std(np.array([1.0, 1.0 + 1e-9]), ddof=1) == 0
    assert stable_std(np.array([1e6, 1e6 + 0.1]), ddof=1) == 0
    assert stable_std(np.array([0.0, 1e-5]), ddof=1) > 0
    assert stable_std(np.array([3.0]), ddof=1) == 0
    np.testing.assert_array_equal(divide_by_std(np.array([1e-12, 0.0]), np.array(0.0)), [0.0, 0.0])


def test_standardised_scores_are_zero_outside():
    mask = np.array([True, True, False])
    actual = standardised(np.array([1.0, 3.0, 99.0]), baseline="mean", ddof=0, mask=mask)
    np.testing.assert_allclose(actual, [-1, 1, 0], atol=2e-6)
