"""`token_overlap`: exact match and F1 by hand, and what earns nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import answered, make_trajectory

from agentgym import JudgeError, load_reward
from agentgym.rewards.token_overlap import exact_match, f1, normalised, word_f1


def test_case_articles_punctuation_and_spaces_do_not_matter():
    assert normalised("  The  Eiffel-Tower, of\nParis! ") == "eiffeltower of paris"
    assert exact_match("the Beatles.", ["Beatles"])
    assert exact_match("\uff12\uff10\uff12\uff14", ["2024"])


@pytest.mark.parametrize(
    ("given", "gold", "score"),
    [
        ("Barack Obama", "Obama", 2 / 3),  # precision 1/2, recall 1
        ("in the city of Paris", "Paris, France", 2 / 6),  # one word of 4 ("the" is none) and of 2
        ("Paris Paris Paris", "Paris", 2 / 4),  # a word counts as often as gold has it
        ("London", "Paris", 0.0),
        ("yes it is", "yes", 0.0),
        ("yes", "yes", 1.0),
        ("", "Paris", 0.0),
        ("the", "the", 0.0),  # nothing is left
    ],
)
def test_f1_is_the_harmonic_mean_over_words(given, gold, score):
    assert word_f1(given, gold) == pytest.approx(score)


def test_the_best_of_several_golds_counts():
    assert f1("Obama", ["Barack Obama", "Obama"]) == 1.0
    assert f1("Obama", []) == 0.0


def test_listing_every_candidate_is_no_exact_match_and_a_book_is_no_answer():
    assert not exact_match("Paris or London", ["Paris"])
    assert word_f1("Paris " * 1000, "Paris") == 0.0


@given(st.text(max_size=40), st.text(max_size=40))
def test_f1_is_symmetric_and_between_zero_and_one(a, b):
    assert word_f1(a, b) == word_f1(b, a)
    assert 0.0 <= word_f1(a, b) <= 1.0
    assert word_f1(a, a) in (0.0, 1.0)


def test_it_judges_the_final_answer():
    judge = load_reward("token_overlap")
    truth = {"answer": "Barack Obama", "answers": ["Obama"]}
    assert judge.outcome(make_trajectory([answered("the Obama")], truth=truth)) == {"success": 1.0, "f1": 1.0}
    assert judge.outcome(make_trajectory([answered("Michelle Obama")], truth=truth)) == {
        "success": 0.0,
        "f1": pytest.approx(2 / 3),
    }
    assert judge.outcome(make_trajectory(truth=truth)) == {"success": 0.0, "f1": 0.0}
    with pytest.raises(JudgeError, match="no truth"):
        judge.outcome(make_trajectory([answered("x")]))
