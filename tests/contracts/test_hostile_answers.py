"""No answer keeps a judge of answers from its verdict, whichever tool takes it, and none of these is paid.

Judges that read what an environment hands in are tried by test_hostile_submissions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentgym import Call, Message, StopReason, Task, Trajectory, Turn, load_reward
from agentgym.messages import Result
from agentgym.reward import SUCCESS, validate_components

MANY = "9" * 5_000
TEXTS = [
    *("", " ", "nan", "inf", "-inf", "1e400", "1e-400", "null", "true", "[]", "{}", "\x00", "\ud800", "\u2028"),
    *(MANY, f"-{MANY}", f"1/{MANY}", f"{MANY}.{MANY}", f"${MANY}", f"0x{'f' * 6_000}", f"1e{MANY}", f"{MANY}!"),
    *("1," * 5_000, "1,000," * 3_000, "5%" * 100, "5" * 4_301, "\u0663" * 5_000, "\u00b2" * 5_000, "\u00bd" * 50),
    *(
        "[" * 100_000,
        "{" * 5_000,
        "(" * 20_000,
        "\\frac{" * 3_000,
        "-" * 20_000,
        "SELECT " + "(" * 5_000,
        "SELECT 1;" * 9,
    ),
    *(
        f"10_{{{MANY}}}",
        f"{MANY}_{{2}}",
        "12_{0}",
        "12_{99}",
        "12_{-3}",
        f"0.\\overline{{{MANY}}}",
        f"\\sqrt[{MANY}]{{2}}",
    ),
    *("2^{2^{2^{2^{2^{2}}}}}", "9999999999!", "2**99999999", "(10^{10^{10}})", f"x^{{{MANY}}}"),
    *("2020-13-45", "99:99 pm", "99/99/9999", "at 0 pm", "February 31", f'File "x.py", line {MANY}', f"x.py:{MANY}"),
    *(f"--- a/x\n+++ b/x\n@@ -1,{MANY} +1 @@\n+x", f"@@ -{MANY} +1 @@\n+x", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n"),
    *(f"[{MANY},{MANY},{MANY},{MANY}]", "[1e999,2,3,4]", f"({MANY},{MANY})", f'{{"a":{MANY}}}', '"\\ud800"'),
]
VALUES: list[Any] = [
    10**400,
    10**4_298,
    1e20,
    1e308,
    True,
    None,
    float("nan"),
    float("inf"),
    [10**400] * 4,
    [float("nan")] * 4,
]
VALUES += [[0.0, 0.0, 1e308, 1e308], {"x": 10**400, "y": 1}, {"a": {"b": [None]}}, [[1], "x", None]]

CALLS = [{"name": "answer", "required": ["text"], "types": {"text": ["integer", None]}, "accepted": {"text": [5]}}]
TRUTHS: dict[str, list[Any]] = {
    "action_similarity": [{"calls": [{"name": "answer", "arguments": {"text": 5}}]}],
    "answer_match": [{"answer": "5"}, {"answers": ["5", "1/3", "2020-01-02"]}],
    "ast_similarity": [{"reference": "def f(x):\n    return x"}],
    "behaviour_action": [{"actions": ["click x"]}],
    "bfcl": [{"kind": "calls", "calls": CALLS}],
    "box_size": [{"box": [1, 2, 3, 4]}],
    "citation": [{"answer": "5", "supporting": ["a"]}],
    "dynamic_iou": [{"box": [1, 2, 3, 4]}],
    "evidence": [{"answer": "5"}],
    "failing_lines": [{"lines": [3]}],
    "grounding": [{"box": [1, 2, 3, 4]}],
    "gui_action": [{"act": ["type", "5"]}, {"act": ["click", [1, 2, 3, 4]]}],
    "literal_match": [{"answer": "5"}],
    "majority_vote": [{}],
    "patch_similarity": [{"patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}],
    "query_evidence": [{"answer": "5", "evidence": ["x"]}],
    "region_votes": [{}],
    "repetition": [{}],
    "routed_answer": [{"answer": "5"}],
    "search": [{"answer": "5"}, {"answer": "five hundred"}],
    "sql_exploration": [{"sql": "SELECT a FROM t"}],
    "sql_ngrams": [{"sql": "SELECT a FROM t"}],
    "sql_schema_linking": [{"sql": "SELECT a FROM t"}],
    "sql_syntax": [{"sql": "SELECT a FROM t"}],
    "symbolic_maths": [{"answer": "\\frac{1}{3}"}, {"answer": "x^2+1"}, {"answer": "A_{16}"}],
    "tag_format": [{}],
    "tau": [{"state": "a digest", "outputs": ["5"]}],
    "tool_call_match": [{"calls": [{"name": "answer", "arguments": {"text": 5}}]}],
    "tried_query": [{}],
    "worked_solution": [{"answer": "5"}],
}
"""The truths with which each judge is tried."""
ARGUMENTS = ("text", "answer", "sql", "query", "patch", "code", "point", "box", "x", "y", "action")


def endings(task: Task, value: Any) -> Iterator[Trajectory]:
    """Yield episodes that end with a value: as an argument of a final call, as its result, and as the last message."""
    for argument in ARGUMENTS:
        yield _called(task, {argument: value}, "Done.")
    yield _called(task, dict.fromkeys(("x", "y"), value), "Done.")
    if isinstance(value, list) and len(value) == 4:
        yield _called(task, dict(zip(("left", "top", "right", "bottom"), value, strict=True)), "Done.")
    text = value if isinstance(value, str) else str(value)
    yield _called(task, {}, text)
    message = Turn(0, Message("assistant", text))
    yield Trajectory("said", task, stop_reason=StopReason.ANSWERED, turns=[message])


def _called(task: Task, arguments: dict[str, Any], text: str) -> Trajectory:
    call = Call("answer", arguments)
    turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result(text, name="answer", final=True),))
    return Trajectory("called", task, stop_reason=StopReason.ANSWERED, turns=[turn])


@pytest.mark.parametrize("name", TRUTHS)
async def test_every_hostile_answer_is_judged_and_none_is_paid(name):
    reward = load_reward(name)
    for truth in TRUTHS[name]:
        for value in [*TEXTS, *VALUES]:
            for episode in endings(Task("own", "test/any-v1", truth=truth), value):
                for turn in episode.turns:
                    await validate_components(reward.turn(turn, episode), reward)
                outcome = await validate_components(reward.outcome(episode), reward)
                assert outcome.get(SUCCESS, 0.0) == 0.0, (truth, repr(value)[:60])
                if reward.has_stage("group"):
                    for components in reward.group([episode, episode]):
                        await validate_components(components, reward)
