"""`agentgym/behaviour-v1`: what a prediction is answered with, where a session ends, and what is refused."""

from __future__ import annotations

import pytest

import agentgym
from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, Task, TaskError

STEPS = [
    {"page": "Start page", "action": "type_and_submit search box: red lamp"},
    {"page": "2 results", "action": "click product: Alto red lamp"},
    {"page": "Alto red lamp, 9 EUR", "action": "terminate"},
]
PARAMETERS = {"past": "Session 1.\n> terminate", "present": "Session 2.", "steps": STEPS}
ACT = {"rationale": "They always leave.", "type": "terminate"}


def task_of(**changes):
    truth = {"actions": [step["action"] for step in STEPS]}
    return Task("t", "agentgym/behaviour-v1", "Predict.", parameters={**PARAMETERS, **changes}, truth=truth)


async def act(environment, **arguments):
    return await environment.call(Call("act", {**ACT, **arguments}, "1"))


async def test_each_prediction_is_answered_with_what_was_done_and_with_the_page_that_came_of_it():
    environment = agentgym.make("agentgym/behaviour-v1")
    (opening,) = await environment.reset(task_of(), seed=0)
    assert opening.text == "Predict.\n\nSession 1.\n> terminate\n\nSession 2.\nStart page"
    assert (await act(environment)).content == "They did: type_and_submit search box: red lamp\n\n2 results"
    assert (await environment.outlook()).turns_needed == 2
    other = agentgym.make("agentgym/behaviour-v1")
    await other.restore(task_of(), await environment.checkpoint(), seed=0)
    assert await other.state_key() == await environment.state_key()
    for each in (environment, other):
        assert (await act(each)).content == "They did: click product: Alto red lamp\n\nAlto red lamp, 9 EUR"
    assert not environment.ended
    assert (await act(environment)).content == "They did: terminate\nThe session is over."
    assert environment.ended
    assert (await act(environment)).status == "tool_error"  # a later call of the same message


async def test_what_is_no_prediction_is_told_and_changes_nothing():
    environment = agentgym.make("agentgym/behaviour-v1")
    await environment.reset(task_of(), seed=0)
    for wrong in ({"type": "buy"}, {"rationale": "x" * 601}, {"value": "x" * 201}):
        assert (await act(environment, **wrong)).status == "wrong_arguments"
    assert (await environment.respond(Message("assistant", "They leave.")))[0].text == "Call act."
    assert (await environment.outlook()).turns_needed == 3


async def test_predictions_of_one_message_are_judged_in_order_and_those_beyond_the_end_count_nothing():
    truth = [("type_and_submit", "search box", "Red lamp"), ("click", "product", "the Alto red lamp"), ("terminate",)]
    calls = [
        Call("act", {"rationale": "r", **dict(zip(("type", "target", "value"), each, strict=False))}, f"c{number}")
        for number, each in enumerate([*truth, ("terminate",)])
    ]
    policy = ScriptedPolicy([Message("assistant", "", tuple(calls))])
    (trajectory,) = await EpisodeManager(policy).collect([task_of()])
    assert trajectory.outcome == {"success": 1.0, "exact_actions": 1.0}
    assert trajectory.turns[0].rewards == pytest.approx({"action_type": 1.0, "attribute": 2 / 3, "value": 4 / 3})
    assert [(span.call, span.text(calls_of := trajectory.turns[0].message)) for span in trajectory.turns[0].spans] == [
        (number, "r") for number in range(3)
    ]
    assert len(calls_of.calls) == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"past": 3}, "needs the texts"),
        ({"steps": []}, "for each decision"),
        ({"steps": [{"page": "Start"}]}, r"steps'\]\[0\] must be a mapping of 'page' and 'action'"),
        (
            {"steps": [{"page": "Start", "action": "buy it"}]},
            "the unknown type 'buy'. Types are: click, type_and_submit",
        ),
    ],
)
async def test_a_log_that_is_none_is_named(changes, words):
    with pytest.raises(TaskError, match=words):
        await agentgym.make("agentgym/behaviour-v1").reset(task_of(**changes), seed=0)
