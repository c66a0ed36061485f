"""The table of failures: every kind is found where it happens, and the document says what the code does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym import Task, Trajectory, Turn
from agentgym.evaluation.failures import FAILURES
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.storage.failures import LEVELS, count_failures, turn_failures

DOCUMENT = Path(__file__).parents[2] / "docs" / "evaluate.md"


def turn(index: int, name: str = "", arguments=None, result: str = "", words: str = "", status=ResultStatus.OK) -> Turn:
    calls = (Call(name, arguments or {}),) if name else ()
    return Turn(index, Message("assistant", words, calls), calls, tuple(Result(result, status) for _ in calls))


def ended(*turns: Turn, stop: StopReason = StopReason.ANSWERED) -> Trajectory:
    return Trajectory("t", Task("t", "e"), turns=list(turns), stop_reason=stop, outcome={"success": 0.0})


def test_a_call_that_brings_nothing_new_is_repeated_and_one_that_does_is_not():
    look = [turn(i, "look", {"at": "a", "deep": [1, {"b": 2}]}, result) for i, result in enumerate("xxyx")]
    other = turn(4, "look", {"at": "b"}, "x")
    assert turn_failures([*look, other]) == [[], ["repeated"], [], [], []]


def test_the_order_of_arguments_makes_no_other_call():
    first, second = turn(0, "look", {"a": 1, "b": 2}, "x"), turn(1, "look", {"b": 2, "a": 1}, "x")
    assert turn_failures([first, second]) == [[], ["repeated"]]


def test_a_call_that_never_ran_is_told_by_its_own_kind_alone():
    twice = [turn(i, "look", {}, "no", status=ResultStatus.UNKNOWN_TOOL) for i in range(2)]
    assert turn_failures(twice) == [["unknown_tool"], ["unknown_tool"]]
    errors = [turn(i, "look", {}, "no", status=ResultStatus.TOOL_ERROR) for i in range(2)]
    assert turn_failures(errors) == [["tool_error"], ["tool_error", "repeated"]]


@pytest.mark.parametrize(
    "words", ["I'm sorry, but I can't help with that.", "I cannot do this.", "As an AI, I have no access.", "I won't."]
)
def test_declining_is_a_kind_of_its_own(words):
    assert count_failures(ended(turn(0, words=words))) == {"refused": 1}


@pytest.mark.parametrize("words", ["The answer is 4.", "It can't be 5, so 4.", "He said sorry: 4", "I can tell: 4."])
def test_an_answer_is_not_taken_for_declining(words):
    assert count_failures(ended(turn(0, words=words))) == {"wrong_answer": 1}


def test_a_budget_that_ends_an_episode_is_no_refusal():
    assert count_failures(ended(turn(0, words="I'm sorry"), stop=StopReason.MAX_TURNS)) == {"no_answer": 1}


def test_an_unsolved_end_is_told_and_one_that_nobody_judged_is_not():
    assert count_failures(replace(ended(turn(0, words="4")), outcome={"success": 0.5})) == {"wrong_answer": 1}
    assert count_failures(replace(ended(turn(0, words="4")), outcome={"fluency": 0.5})) == {}
    assert count_failures(replace(ended(turn(0, words="4")), outcome={"success": 1.0})) == {}


def test_a_broken_machine_is_the_only_failure_of_its_episode_and_a_running_one_has_no_end_yet():
    bad = turn(0, "look", status=ResultStatus.TOOL_ERROR)
    assert count_failures(ended(bad, stop=StopReason.INFRA_ERROR)) == {"failed": 1}
    assert count_failures(replace(ended(bad), stop_reason=None, outcome={})) == {"tool_error": 1}


def test_every_status_of_a_result_that_is_not_ok_is_a_kind_that_is_counted_per_call():
    assert {status.value for status in ResultStatus if not Result("", status).ok} == {
        k for k, v in LEVELS.items() if v == "call"
    } - {"repeated"}


def test_the_documents_table_is_the_codes():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]+) \| `(\w+)` \| ([^|]+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    written = {name: (level, meaning, treatment, why) for name, level, meaning, treatment, why in rows}
    assert written == {name: (f.level, f.meaning, f.treatment, f.why) for name, f in FAILURES.items()}
