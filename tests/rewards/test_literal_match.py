"""`literal_match`: the same value of the same kind, and nothing that is run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import answered, make_trajectory

from agentgym import JudgeError, load_reward
from agentgym.rewards.literal_match import literal

JUDGE = load_reward("literal_match")


def success(answer, gold):
    return JUDGE.outcome(make_trajectory([answered(answer)], truth={"answer": gold}))["success"]


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("[1, (2, 'a')]", '[1,(2,"a")]'),
        (" 'it\\'s' ", '"it\'s"'),
        ("{'b': 2, 'a': 1}", "{'a': 1, 'b': 2}"),
        ("{2, 1}", "{1, 2}"),
        ("-1.50", "-1.5"),
        ("None", "None"),
        ("True", ["False", "True"]),
    ],
)
def test_the_same_value_may_be_written_in_another_way(answer, gold):
    assert success(answer, gold) == 1.0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("1", "True"),
        ("1.0", "1"),
        ("[1]", "(1,)"),
        ("{1: 1}", "{True: 1}"),
        ("hello", "'hello'"),
        ("'5'", "5"),
        ("", "''"),
        ("5 or 6", "5"),
        ("__import__('os').getcwd()", "''"),
        ("(" * 5_000 + ")" * 5_000, "()"),
        ("-" * 5_000 + "1", "1"),
        ("9" * 19_000, "9"),
    ],
)
def test_another_kind_or_something_that_is_no_literal_is_wrong(answer, gold):
    assert success(answer, gold) == 0.0


def test_a_gold_answer_that_is_no_literal_is_the_tasks_trouble():
    with pytest.raises(JudgeError, match="Write text with its quotes"):
        success("'a'", "a")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_what_python_writes_of_a_value_is_read_as_that_value(value):
    assert literal(repr(value)) == literal(f" {value!r}\n") is not None
