"""What an agent has seen, as the state of an environment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentgym import ObservedState


@given(st.lists(st.text()), st.randoms())
def test_neither_order_nor_repetition_of_results_counts(results, random):
    once = ObservedState("a database", results)
    shuffled = ObservedState("a database")
    for result in random.sample(results, len(results)) + results:
        assert shuffled.add(result) == result
    assert shuffled.key() == once.key()


def test_the_identity_the_results_and_what_else_is_given_tell_two_states_apart():
    keys = [
        ObservedState().key(),
        ObservedState("a").key(),
        ObservedState("b").key(),
        ObservedState("a", ["b"]).key(),
        ObservedState("a").key("c"),
        ObservedState("a").key("c", "d"),
        ObservedState("a", ["ab"]).key(),
        ObservedState("a", ["a", "b"]).key(),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 32 for key in keys)


def test_a_checkpoint_gives_the_same_state():
    first = ObservedState("a", ["b", "c"])
    second = ObservedState("a", ["x"])
    second.restore(first.data())
    assert second.key() == first.key()


def test_a_lone_surrogate_is_no_error():
    assert ObservedState("\ud800", ["\udfff"]).key("\ud83d")
