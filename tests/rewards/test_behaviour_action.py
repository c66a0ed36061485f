"""`behaviour_action`: what is paid for a type, an element and a value, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import called, make_trajectory

from agentgym import JudgeError
from agentgym.messages import ResultStatus
from agentgym.rewards.behaviour_action import BehaviourAction, rouge_l

ACTIONS = ["type_and_submit search box: cheap red kettle", "click filter: under 40", "terminate"]


def did(kind, target="", value="", status=ResultStatus.OK):
    return called("act", "They did", status, rationale="So.", type=kind, target=target, value=value)


def judged(*turns, **options):
    """The components of each turn, times the three actions of the session, and the outcome."""
    judge, episode = BehaviourAction(**options), make_trajectory(*turns, truth={"actions": ACTIONS})
    paid = [judge.turn(turn, episode) for turn in episode.turns]
    assert all(list(components) == ["action_type", "attribute", "value"] for components in paid)
    return [[round(3 * part, 6) for part in components.values()] for components in paid], judge.outcome(episode)


def test_each_part_is_paid_where_those_above_it_are_right():
    """Three of four words in common: F1 = 2 * 3 / (4 + 3) = 6 / 7, times 2 for what was typed."""
    paid, outcome = judged(
        [did("type_and_submit", "search box", "cheap red tea kettle")],
        [did("click", "filter", "under 20")],
        [did("terminate")],
    )
    assert paid == [[1, 1, round(12 / 7, 6)], [1, 1, 0], [1, 0, 0]]
    assert outcome == {"success": 0.0, "exact_actions": 1 / 3}
    paid, _ = judged([did("click", "filter", "under 40")], [did("click", "sort", "under 40")])
    assert paid == [[0, 0, 0], [1, 0, 0]]


def test_long_values_count_more_and_only_whole_ones_without_soft_likeness():
    right = [did("type_and_submit", "Search box", "The cheap red kettle.")], [did("click", "filter", "under 40")]
    assert judged(*right, difficulty=5.0)[0] == [[1, 1, 5], [1, 1, 1]]
    assert judged([did("type_and_submit", "search box", "cheap red tea kettle")], threshold=1.0)[0] == [[1, 1, 0]]
    outcome = judged(*right, [did("terminate", "ignored", "")])[1]
    assert outcome == {"success": 0.0, "exact_actions": 2 / 3}  # to terminate has no element
    assert judged(*right, [did("terminate")])[1] == {"success": 1.0, "exact_actions": 1.0}


def test_a_call_that_did_not_run_predicts_nothing_and_calls_beyond_the_session_are_not_paid():
    paid, outcome = judged(
        [did("terminate", status=ResultStatus.WRONG_ARGUMENTS)],
        "I would search.",
        [did("type_and_submit", "search box", "cheap red kettle"), did("click", "filter", "under 40")],
        [did("terminate"), did("terminate"), did("terminate")],
    )
    assert paid == [[0, 0, 0], [0, 0, 0], [2, 2, 3], [1, 0, 0]]
    assert outcome["success"] == 1.0


def test_the_rationale_of_each_call_that_ran_is_a_span():
    episode = make_trajectory(
        [did("terminate", status=ResultStatus.WRONG_ARGUMENTS), did("terminate")], "No.", truth={"actions": ACTIONS}
    )
    (spans, none) = BehaviourAction().spans(episode)
    assert [(span.call, span.start, span.end, span.value) for span in spans] == [(1, 0, 3, 1.0)]
    assert none == []


def test_what_cannot_be_judged_and_options_out_of_range_are_named():
    for truth in (None, {"actions": []}, {"actions": [["click", "a", "b"]]}):
        with pytest.raises(JudgeError, match="which behaviour_action needs"):
            BehaviourAction().outcome(make_trajectory([did("terminate")], truth=truth))
    for options in ({"difficulty": -1.0}, {"difficulty": float("nan")}, {"threshold": 1.5}):
        with pytest.raises(ValueError, match="difficulty must be a finite number of at least"):
            BehaviourAction(**options)


WORDS = st.lists(st.sampled_from("abc"), max_size=7).map(" ".join)


@given(WORDS, WORDS)
def test_likeness_is_that_of_the_longest_common_subsequence(left, right):
    """By trying every subsequence of the one in the other."""

    def longest(a, b):
        return (
            0 if not a or not b else max(longest(a[1:], b), (a[0] in b) and 1 + longest(a[1:], b[b.index(a[0]) + 1 :]))
        )

    a, b = left.split(), right.split()
    expected = 2 * longest(a, b) / (len(a) + len(b)) if a and b else 0.0
    assert rouge_l(left, right) == pytest.approx(expected)
