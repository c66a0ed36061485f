"""`failing_lines` names the lines that agentgym/code-v1 reports of a failing test."""

from __future__ import annotations

import pytest
from judging import called, make_trajectory

from agentgym import (
    Call,
    Combined,
    EpisodeManager,
    Message,
    Reward,
    RewardError,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    Turn,
)
from agentgym.evaluation.rescore import rescore
from agentgym.reward.contract import validate_spans
from agentgym.rewards.failing_lines import FailingLines
from agentgym.rewards.hidden_tests import HiddenTests
from agentgym.sandboxes.code.guest_tests import try_tests
from agentgym.storage.ledger import Ledger
from agentgym.trajectory import Span

CODE = "def f(x):\n    é = 'naïve'\n    return 1 / x\n\n\ndef g(x):\n    return f(x) + 1\n"


def report_of(code: str, *tests: str, capsys) -> str:
    """What the tool `test` says: its own code, which the environment sends to the sandbox."""
    try_tests(code, "", list(tests))
    return str(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("code", "tests", "lines"),
    [
        (CODE, ["assert f(0) == 1", "assert g(1) == 2"], ["    return 1 / x"]),
        (CODE, ["assert g(0) == 1"], ["    return 1 / x"]),  # the innermost line
        (CODE, ["assert f(1) == 5"], []),  # a wrong value names no line
        ("\x0cx = 1\ny = zero\n", ["assert x"], ["y = zero"]),  # a form feed ends no line
        ("x = 1\r\ny = (\r\n", ["assert x"], ["y = ("]),
        ("def f():\n    return 'E: no (line 1)'\n", ["assert f() == 1"], []),
    ],
)
def test_the_lines_in_which_a_test_raised_are_spans(code, tests, lines, capsys):
    printed = report_of(code, *tests, capsys=capsys)
    episode = make_trajectory([called("run", code="a / 0"), called("test", printed, code=code)], "I give up.")
    spans, none = FailingLines().spans(episode)
    assert [code[span.start : span.end] for span in spans] == lines
    assert {(span.call, span.argument, span.value) for span in spans} <= {(1, "code", 1.0)}
    assert none == []


def test_a_line_that_the_code_does_not_have_is_none():
    episode = make_trajectory(
        [called("test", "  E: x (line 9)\n  E: x (line 0)", code="a"), called("test", "x (line 1)")]
    )
    assert FailingLines().spans(episode) == [[]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([], "for 1 turns, but `spans` must return a list"),
        ([[Span(0, 9)]], "A span must cover at least one character of its text, which has 2"),
        ([[Span(1, 1)]], "A span must cover at least one"),
        ([[Span(0, 1, float("nan"))]], "and have a finite value"),
        ([[Span(0, 1, call=0, argument="code")]], "the argument 'code' of call 0 has no text"),
        ([[(0, 1)]], "for turn 0"),
    ],
)
async def test_a_span_that_is_none_is_refused_by_turn(answer, message):
    with pytest.raises(RewardError, match=message):
        await validate_spans(answer, FailingLines(), [Turn(0, Message("assistant", "ab"))])


@pytest.mark.needs_namespaces
async def test_an_episode_of_the_code_environment_records_them(tmp_path):
    """The tool's real answer from its sandbox, a recipe's combination with the environment's own reward, the ledger."""
    agent = ScriptedPolicy(
        [
            Message("assistant", "", (Call("test", {"code": CODE}, "call_0"),)),
            Message("assistant", "", (Call("submit", {"code": CODE}, "call_0"),)),
        ]
    )
    task = Task(
        "f", "agentgym/code-v1", "?", parameters={"tests": ["assert g(0) == 1"]}, truth={"tests": ["assert g(1) == 2"]}
    )
    ledger = Ledger(tmp_path / "ledger.sqlite")
    config = RolloutConfig(reward=Combined(HiddenTests(), FailingLines()))
    [episode] = await EpisodeManager(agent, config, ledger=ledger).collect([task])
    recorded = ledger.load(episode.id)
    ledger.close()
    assert episode.outcome["success"] == 1.0
    for trajectory in (episode, recorded):
        [span] = trajectory.turns[0].spans
        assert CODE[span.start : span.end] == "    return 1 / x"
        assert trajectory.turns[1].spans == ()


async def test_rescoring_names_them_anew(capsys):
    episode = make_trajectory([called("test", report_of(CODE, "assert g(0) == 1", capsys=capsys), code=CODE)])
    assert episode.turns[0].spans == ()
    [rescored] = await rescore([episode], FailingLines())
    assert [CODE[span.start : span.end] for span in rescored.turns[0].spans] == ["    return 1 / x"]


async def test_combined_rewards_name_the_spans_of_all_of_them():
    class FirstLetter(Reward):
        """The first letter of every message."""

        async def spans(self, episode):
            return [[Span(0, 1)] for _ in episode.turns]

    episode = make_trajectory("ab", "c")
    assert await Combined(FirstLetter(), Reward(), FirstLetter()).spans(episode) == [[Span(0, 1)] * 2] * 2
    assert Combined(FirstLetter()).has_stage("spans")
    assert not Combined(Reward()).has_stage("spans")
