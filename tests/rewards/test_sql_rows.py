"""Comparing query results: what counts as the same, and that no order of rows or digit decides by chance."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.rewards.sql_rows import asks_for_order, same_rows

CELLS = st.one_of(st.none(), st.integers(-3, 3), st.floats(-2, 2), st.sampled_from(["a", "b", ""]), st.booleans())
ROWS = st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=6)


@pytest.mark.parametrize(
    ("gold", "given_rows", "ordered", "same"),
    [
        ([[1], [2]], [[2], [1]], False, True),
        ([[1], [2]], [[2], [1]], True, False),
        ([[1], [1], [2]], [[1], [2], [2]], False, False),  # a multiset, not a set
        ([[1], [1]], [[1]], False, False),
        ([[1, "a"]], [["a", 1]], False, False),  # the order of columns counts
        ([[1, 2]], [[1]], False, False),
        ([[3.0]], [[3]], False, True),
        ([[0.1 + 0.2]], [[0.3]], False, True),
        ([[100.0]], [[100.1]], False, False),
        ([[1]], [["1"]], False, False),
        ([[None]], [[0]], False, False),
        ([[None]], [[None]], False, True),
        ([["a"]], [["A"]], False, False),
        ([[True]], [[1]], False, True),
        ([], [], False, True),
        ([[2**70]], [[2**70]], False, True),
        ([[10_000_001]], [[10_000_002]], False, False),
        ([[10_000_001.0]], [[10_000_002]], False, False),
        ([[4949996.25]], [[4949994.0]], False, False),  # the sum of 4,001 rows, and of all but one
        ([[2**60]], [[2**60 + 1]], False, False),
        ([[10**400]], [[10**400]], True, True),
        ([[float("nan")]], [[1.0]], False, False),
        ([[1.0000000001, 5], [1.0, 3]], [[1.0, 5], [1.0000000001, 3]], False, True),  # sorting would pair them wrongly
    ],
)
def test_rows_by_hand(gold, given_rows, ordered, same):
    assert same_rows(gold, given_rows, ordered=ordered) is same
    assert same_rows(given_rows, gold, ordered=ordered) is same


@given(rows=ROWS, seed=st.integers(0, 999))
def test_any_order_of_the_same_rows_is_the_same(rows, seed):
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    assert same_rows(rows, shuffled, ordered=False)


@given(rows=ROWS.filter(bool), index=st.integers(0, 5))
def test_a_row_that_is_missing_twice_or_changed_is_seen(rows, index):
    index %= len(rows)
    assert not same_rows(rows, [*rows, rows[index]], ordered=False)
    assert not same_rows(rows, rows[:index] + rows[index + 1 :], ordered=False)
    changed = [*rows[:index], ["changed", *rows[index][1:]], *rows[index + 1 :]]
    assert not same_rows(rows, changed, ordered=False)


@given(
    rows=st.lists(st.lists(st.floats(1, 9), min_size=2, max_size=2), min_size=1, max_size=6), seed=st.integers(0, 99)
)
def test_noise_below_the_tolerance_never_matters(rows, seed):
    noisy = [[value * (1 + 1e-10 * ((seed + n) % 3 - 1)) for value in row] for n, row in enumerate(rows)]
    assert same_rows(rows, noisy[::-1], ordered=False)


def test_long_results_are_paired_by_their_whole_numbers():
    """More rows than are matched one by one: ids that differ by one stand beside averages with noise."""
    rows = [[10_000_000 + index, 1 / 3 + index % 3] for index in range(1000)]
    noisy = [[key, value * (1 + 1e-15)] for key, value in rows]
    assert same_rows(rows, random.Random(0).sample(noisy, len(noisy)), ordered=False)
    noisy[7][0] += 5_000
    assert not same_rows(rows, noisy, ordered=False)


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("select a from t order\n  by a limit 1", True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT 'order by' FROM t", False),
        ('SELECT "order by" FROM t', False),
        ("SELECT a FROM t -- order by a", False),
        ("SELECT a /* order by a */ FROM t", False),
        ("SELECT a FROM t WHERE b = 'it''s' ORDER BY a", True),
        ("SELECT rank() OVER (ORDER BY a) FROM t", False),
        ("SELECT count(*)FROM t ORDER/**/BY 1", True),
        ("SELECT 'unclosed ORDER BY", False),
    ],
)
def test_order_counts_only_where_the_outermost_select_asks_for_it(sql, ordered):
    assert asks_for_order(sql) is ordered
