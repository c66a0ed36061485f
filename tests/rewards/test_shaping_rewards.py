"""Validity, tags, efficiency, length and repetition: worked examples, bounds, and who tries to be paid for nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import answered, called, make_trajectory

from agentgym import JudgeError
from agentgym.messages import ResultStatus
from agentgym.rewards.bounded_steps import BoundedSteps, clipped, deltas
from agentgym.rewards.call_validity import CallValidity
from agentgym.rewards.length import Brevity, Overlong
from agentgym.rewards.repetition import Repetition, repeated_share
from agentgym.rewards.tag_format import TagFormat
from agentgym.rewards.tool_efficiency import ToolEfficiency, r_tool

BAD = ResultStatus.WRONG_ARGUMENTS


def test_valid_calls_is_the_share_that_could_be_run_and_format_that_none_was_badly_written():
    """Two of four were badly written; what a tool refused was well written."""
    episode = make_trajectory(
        [
            called("a", "no", status)
            for status in (ResultStatus.OK, BAD, ResultStatus.MALFORMED, ResultStatus.TOOL_ERROR)
        ],
        "I only talk",
        [answered("x")],
    )
    judge = CallValidity()
    assert [judge.turn(turn, episode) for turn in episode.turns] == [{"valid_calls": 0.5}, {}, {"valid_calls": 1.0}]
    assert judge.outcome(episode) == {"format": 0.0}
    assert judge.outcome(make_trajectory([called("a")], [answered("x")])) == {"format": 1.0}
    assert judge.outcome(make_trajectory("no call at all")) == {"format": 0.0}


def test_making_more_calls_does_not_raise_the_share():
    episode = make_trajectory([called("a")] * 50)
    assert CallValidity().turn(episode.turns[0], episode) == {"valid_calls": 1.0}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("<think>well</think><answer>4</answer>", 1.0),
        (" <think>well</think>\n<answer>4</answer>\n", 1.0),
        ("<think>well</think><answer></answer>", 0.0),
        ("<answer>4</answer><think>well</think>", 0.0),
        ("<think>a</think><think>b</think><answer>4</answer>", 0.0),
        ("<think><answer>4</answer></think>", 0.0),
        ("so: <think>well</think><answer>4</answer>", 0.0),
        ("<think>well</think><answer>4</answer> and more", 0.0),
        ("<think>well<answer>4</answer>", 0.0),
        ("", 0.0),
    ],
)
def test_each_tag_stands_once_in_order_with_something_inside(text, fits):
    assert TagFormat().hindsight(make_trajectory(text)) == [{"tags": fits}]


def test_the_last_message_may_have_other_tags_and_text_around_may_be_allowed():
    judge = TagFormat(("think",), last=("answer",), around=True)
    assert judge.hindsight(make_trajectory("<think>a</think> call", "<answer>4</answer>")) == [{"tags": 1.0}] * 2
    assert judge.hindsight(make_trajectory("<think>a</think>")) == [{"tags": 0.0}]


def test_r_tool_by_the_published_formulas():
    """OTC-PO eq. 5 and 6 at hand-made points: n = 2, m = 6 gives f = 24/8 = 3, sin(3 pi / 4)."""
    assert r_tool(2, 2, 4.0) == pytest.approx(1.0)
    assert r_tool(6, 2, 4.0) == pytest.approx(math.sin(3 * math.pi / 4))
    assert r_tool(0, 0, 4.0) == 1.0
    assert r_tool(2, 0, 4.0) == pytest.approx(math.cos(math.pi / 4))  # 2 pi / (4 + 4)


@given(fewest=st.integers(0, 20), calls=st.integers(0, 50), smooth=st.floats(0.1, 50))
def test_more_calls_than_needed_are_never_worth_more(fewest, calls, smooth):
    assert 0.0 <= r_tool(fewest + calls, fewest, smooth) <= 1.0 + 1e-12
    assert r_tool(fewest + calls + 1, fewest, smooth) <= r_tool(fewest + calls, fewest, smooth) + 1e-12


def test_efficiency_compares_with_the_fewest_calls_of_a_right_episode_and_pays_nothing_for_a_wrong_one():
    right, slow = [called("s")] * 1, [called("s")] * 3
    episodes = [
        make_trajectory(right, [answered("x")], outcome={"success": 1.0}),
        make_trajectory(slow, [answered("x")], outcome={"success": 1.0}),
        make_trajectory([answered("y")], outcome={"success": 0.0}),
    ]
    components = ToolEfficiency().group(episodes)
    assert [row["tool_calls"] for row in components] == [1.0, 3.0, 0.0]
    assert [row["tool_efficiency"] for row in components] == pytest.approx([1.0, math.sin(1.5 * math.pi / 2), 0.0])
    alone = ToolEfficiency(against="none").group(episodes)
    assert alone[1]["tool_efficiency"] == pytest.approx(math.cos(3 * math.pi / 10))
    with pytest.raises(JudgeError, match="the component 'success'"):
        ToolEfficiency().group([make_trajectory([answered("x")])])


def test_only_the_tools_that_are_named_count():
    episode = make_trajectory([called("search"), called("note")], [answered("x")])
    assert ToolEfficiency(tools=["search"]).calls_of(episode) == 1


@pytest.mark.parametrize(("tokens", "cost"), [(700, 0.0), (768, 0.0), (896, -0.5), (1024, -1.0), (5000, -1.0)])
def test_overlong_grows_from_limit_minus_margin_to_the_limit(tokens, cost):
    """Limit 1,024 and margin 256: half-way into the margin, 896, costs half."""
    assert Overlong(1024, 256).outcome(make_trajectory([answered("x")], tokens=tokens)) == {"overlong": cost}


def test_where_nobody_counted_tokens_length_says_nothing():
    assert Overlong().outcome(make_trajectory([answered("x")])) == {}
    judged = Brevity().group([make_trajectory([answered("x")], outcome={"success": 1.0})])
    assert judged == [{}]


def test_brevity_prefers_the_shorter_right_answer_and_never_pays_a_wrong_one():
    """Lengths 100, 200, 300: 0.5, 0, -0.5; the wrong one of 100 gets min(0, 0.5) = 0."""
    calls = [(100, 1.0), (200, 1.0), (300, 1.0), (100, 0.0)]
    episodes = [
        make_trajectory([answered("x")], tokens=tokens, outcome={"success": success}) for tokens, success in calls
    ]
    assert [row["brevity"] for row in Brevity().group(episodes)] == [0.5, 0.0, -0.5, 0.0]
    assert Brevity().group(episodes[:1]) == [{"brevity": 0.0}]


def test_a_call_made_before_costs_and_another_argument_does_not():
    episode = make_trajectory(
        [called("q", sql="a")], [called("q", sql="a"), called("q", sql="b")], [called("q", sql="b")], "said"
    )
    components = [Repetition().turn(turn, episode) for turn in episode.turns]
    assert components == [{"repeated_calls": 0.0}, {"repeated_calls": -0.5}, {"repeated_calls": -1.0}, {}]


def test_repeated_words_are_counted_by_their_second_and_later_times():
    """`a b a b a b` has the bigrams ab ba ab ba ab: 2 different of 5, so 3/5 are repeated."""
    assert repeated_share("a b a b a b", 2) == pytest.approx(0.6)
    assert repeated_share("all words here differ", 2) == 0.0
    assert repeated_share("short", 4) == 0.0
    assert repeated_share("word " * 10**5, 4) == 1.0
    assert Repetition(2).outcome(make_trajectory("a b a b a b")) == {"repetition": pytest.approx(-0.6)}


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_deltas_from_any_step_add_up_to_its_score_and_clipped_steps_never_pay(scores):
    """So repeating a good step cannot raise the return: it is one score, or at most 0."""
    differences = deltas(scores)
    for step in range(len(scores)):
        assert math.fsum(differences[step:]) == pytest.approx(scores[step], abs=1e-9)
    assert max(clipped(scores, 0.5)) <= 0.0
    assert clipped([0.2, 0.5, 0.9], 0.5) == pytest.approx([-0.3, 0.0, 0.0])


async def test_bounded_steps_refines_a_component_of_another_reward():
    episode = make_trajectory([called("a")], [called("a", "no", BAD)], [answered("x")])
    assert await BoundedSteps("call_validity", "valid_calls").hindsight(episode) == [
        {"step": 1.0},
        {"step": -1.0},
        {"step": 1.0},
    ]
    with pytest.raises(JudgeError, match="bounded_steps needs two options"):
        await BoundedSteps().hindsight(episode)
