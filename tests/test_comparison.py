"""One comparison of numbers and texts for all judges: whole numbers exactly, sums of floats without their noise."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import Task
from agentgym.reward import comparison, fold_text

NFD, CURLY, MINUS, WIDE, NO_BREAK = "Cafe\u0301", "d\u2019Or", "\u22125", "\uff11\uff12", "New\u00a0York"


@given(number=st.integers(-(10**20), 10**20), other=st.integers(-(10**20), 10**20))
def test_whole_numbers_are_equal_only_to_themselves(number, other):
    assert comparison.same_number(number, other) == (number == other)
    assert comparison.same_answer(str(number), str(other)) == (number == other)
    assert not comparison.same_number(number, number + 1)
    assert not comparison.same_answer(f"{number:,}", f"{number + 1:,}")


@pytest.mark.parametrize("number", [10_000_001, 4_155_550_123, 123_456_789_012, 10**17, 10**30])
def test_ids_and_phone_numbers_that_differ_by_one_are_two(number):
    assert not comparison.same_answer(str(number), str(number + 1))
    assert not comparison.same_answer(number, f"{number + 1}.0")
    assert not comparison.same_data({"id": number}, {"id": number + 1})


@given(amounts=st.lists(st.integers(1, 10**6), min_size=2, max_size=200), seed=st.integers(0, 99))
def test_the_order_of_a_sum_does_not_matter_and_a_lost_row_does(amounts, seed):
    values = [amount / 100 for amount in amounts]
    shuffled = random.Random(seed).sample(values, len(values))
    assert comparison.same_number(sum(values), sum(shuffled))
    assert not comparison.same_number(sum(values), sum(values[1:]))


def test_a_lost_row_of_four_thousand_is_seen():
    assert not comparison.same_number(4949996.25, 4949994.0)
    assert not comparison.same_number(4949996.25, 4949996.0)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (3, 3.0, True),
        (0.1 + 0.2, 0.3, True),
        (0.1 + 0.2 - 0.3, 0, True),
        (1e-10, 2e-10, False),
        (2**53 + 1, 2**53, False),
        (1e20, 10**20, True),
        (Fraction(1, 3), 1 / 3, True),
        (float("nan"), float("nan"), False),
        (float("inf"), float("inf"), True),
        (float("inf"), 10**400, False),
        (10**400, 10**400 + 1, False),
        (10**400, 0.5, False),
    ],
)
def test_numbers_by_hand(left, right, same):
    assert comparison.same_number(left, right) is same
    assert comparison.same_number(right, left) is same


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$1,184.50", Fraction("1184.5")),
        ("-$5", -5),
        ("$-5", -5),
        (MINUS, -5),
        (WIDE, 12),
        ("1e3", 1000),
        (".5", Fraction(1, 2)),
        ("1,5", None),
        ("10\u00b2", None),
        ("1\u00bd", None),
        ("2021-05-04", None),
        ("nan", None),
        ("-$-5", None),
        ("1e9999", None),
        ("1_000", None),
        ("\u0663\u066b\u0661\u0664", Fraction("3.14")),
        ("5 \u20ac", 5),
        ("\u20b9500", 500),
        ("$5$", None),
        ("50%", None),
        ("9" * 5000, None),
    ],
)
def test_a_plain_number_is_read_and_nothing_else(text, value):
    assert comparison.read_number(text) == value


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (NFD, "caf\u00e9"),
        (CURLY, "D'OR"),
        ("\u201cyes\u201d", '"yes"'),
        (MINUS, "-5"),
        ("1914\u20131918", "1914-1918"),
        (WIDE, "12"),
        ("\u0661\u0662", "12"),
        (NO_BREAK, "New York"),
        ("\ufb01ne", "fine"),
        ("zero\u200bwidth", "zerowidth"),
        ("Stra\u00dfe", "STRASSE"),
        ("1\u20442", "1/2"),
        ("\u00bd", "1/2"),
        ("1\u00bd", "1 1/2"),
        ("\u0661\u00bd", "1 1/2"),
        ("\u0663\u066b\u0661\u0664", "3.14"),
        ("\u0661\u066c\u0660\u0660\u0660", "1,000"),
        ("50\u066a", "50%"),
        ("Hawai\u02bbi", "Hawai'i"),
        ("\u5317\u4eac\u3002", "\u5317\u4eac."),
        ("5 \u338f", "5 kg"),
        ("5 \u33a7", "5 m/s"),
        ("so\u00adft", "soft"),
        ("a\u034fb", "ab"),
        ("\u845b\U000e0100", "\u845b"),
        ("\u2162", "III"),
        ("a \u2217 b", "a * b"),
        ("1{,}184{,}500", "1,184,500"),
    ],
)
def test_what_unicode_spells_in_two_ways_is_one_answer(left, right):
    assert fold_text(left) == fold_text(right)
    assert comparison.same_answer(left, right)
    assert comparison.same_data([left], [right], folded=True)
    assert not comparison.same_data([left], [right])
    first, second = (Task("t", "test/any-v1", text) for text in (left, right))
    assert first.content_key() == second.content_key()


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("5 \u20ac", "\u20ac5.00", True),
        ("$5", "5", True),
        ("$5", "\u20ac5", False),
        ("50 %", "50.0%", True),
        ("50%", "0.5", False),
        ("0.5%", "0.5", False),
        ("10000001 %", "10000002%", False),
        ("\u066b5", ".5", True),
    ],
)
def test_units_that_are_written_are_the_same(answer, gold, same):
    assert comparison.same_answer(answer, gold) is same
    assert comparison.same_answer(gold, answer) is same


@pytest.mark.parametrize(
    ("left", "right"), [("10\u00b2", "102"), ("1\u00bd", "11/2"), ("H\u2082", "H2x"), ("a", "\u03b1")]
)
def test_exponents_and_other_letters_say_something_else(left, right):
    assert fold_text(left) != fold_text(right)


@given(text=st.text())
def test_folding_twice_changes_nothing(text):
    assert fold_text(fold_text(text)) == fold_text(text)


def test_data_are_compared_by_kind():
    assert comparison.same_data({"a": [1, 2.0]}, {"a": (1.0, 2)})
    assert not comparison.same_data({"a": True}, {"a": 1})
    assert not comparison.same_data([1], [1, 2])
    assert not comparison.same_data({"a": None}, {})
    assert not comparison.same_data("1", 1)


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("7", "007", False),
        ("2139", "02139", False),
        ("007.", "007", True),
        ("02139", "2139", True),
        ("07", "7", True),
        ("0.50", "0.5", True),
        ("0", "0", True),
        (".5", "0.5", True),
    ],
)
def test_a_gold_answer_with_leading_zeros_is_a_code(answer, gold, same):
    """An answer with zeros before a number is that number, as in the scorers of GSM8K and GAIA, which use float()."""
    assert comparison.same_answer(answer, gold) is same


@pytest.mark.parametrize("answer", ['"Homer Jr."', "'Homer Jr'.", "Homer Jr..", '"Homer Jr".', "``Homer Jr.``"])
@pytest.mark.parametrize("gold", ["Homer Jr.", "Homer Jr", '"Homer Jr."'])
def test_quotes_and_full_stops_at_the_end_come_in_any_order(answer, gold):
    assert comparison.same_answer(answer, gold)
    assert not comparison.same_answer(answer, "Homer")
