"""Roles one after the other: each reads what the former ones said, and no more."""

from __future__ import annotations

import pytest

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.errors import AgentGymError
from agentgym.messages import ResultStatus
from agentgym.methods.teams import PipelineStage, with_pipeline
from agentgym.methods.teams.pipeline import MAX_OUTPUT_CHARS
from agentgym.testing import ByteRenderer, CounterWithState, TargetReached

TASK = Task("t", "test/counter-v1", "Count to 3.", parameters={"target": 3}, truth=3)
STAGES = [
    PipelineStage("rewriter", "Say in one word how far: {task}"),
    PipelineStage("counter", "Add {rewriter}.", tools=("add",)),
    PipelineStage("closer", "It was said: {counter} Submit."),
]


async def test_each_stage_is_a_row_that_reads_what_was_said_before():
    read = []

    def act(messages):
        read.append([message.text for message in messages])
        if messages[0].text.startswith("Say"):
            return Message("assistant", "3")
        if messages[0].text.startswith("It was"):
            return Message("assistant", "", (Call("submit", {}, "c"),))
        if len(messages) == 1:
            return Message("assistant", "", (Call("add", {"amount": 3}, "a"), Call("submit", {}, "b")))
        return Message("assistant", "Added {task}.")  # a brace in what is said is no field

    config = RolloutConfig(environment=with_pipeline(CounterWithState, STAGES), reward=TargetReached())
    (trajectory,) = await EpisodeManager(ScriptedPolicy(act, ByteRenderer()), config).collect([TASK])
    assert trajectory.success == 1.0
    assert read[0] == ["Say in one word how far: Count to 3."]
    assert read[1] == ["Add 3."]
    assert read[3] == ["It was said: Added {task}. Submit."]
    assert [(turn.role, turn.row) for turn in trajectory.turns] == [
        ("rewriter", 0),
        ("counter", 1),
        ("counter", 1),
        ("closer", 2),
    ]
    statuses = [result.status for result in trajectory.turns[1].results]
    assert statuses == [ResultStatus.OK, ResultStatus.UNKNOWN_TOOL], "a stage has its own tools alone"


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ([], "at least one stage"),
        ([PipelineStage("a", "x"), PipelineStage("a", "y")], "'a' of a pipeline is empty, or is used"),
        ([PipelineStage("task", "x")], "'task' of a pipeline is empty, or is used"),
        ([PipelineStage("a", "{b}"), PipelineStage("b", "{a}")], r"'a' uses \{b\}, but before it only task are known"),
        ([PipelineStage("a", "{a}")], r"'a' uses \{a\}"),
        (
            [PipelineStage("a", 'Give {"x": 1')],
            r"prompt of 'a' is not a valid template .*Write \{\{ and \}\} for a literal brace",
        ),
        ([PipelineStage("a", "{task:{width}}")], r"'a' uses \{task\} with a format"),
        ([PipelineStage("a", "{task!r}")], r"'a' uses \{task\} with a format"),
        ([PipelineStage("0", "x"), PipelineStage("b", "{0}")], "role '0' cannot be used in a prompt"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused_at_once(stages, words):
    with pytest.raises(AgentGymError, match=words):
        with_pipeline(CounterWithState, stages)


async def test_a_tool_that_the_environment_has_not_is_named():
    environment = with_pipeline(CounterWithState, [PipelineStage("a", "x", tools=("fly",))])()
    with pytest.raises(
        AgentGymError, match=r"'a' has the tool 'fly', which the environment does not have. It has: add"
    ):
        await environment.reset(TASK, seed=0)


async def test_a_pipeline_goes_on_from_a_checkpoint_as_it_was():
    make = with_pipeline(CounterWithState, STAGES)
    environment, copy = make(), make()
    await environment.reset(TASK, seed=0)
    await environment.respond(Message("assistant", "3"))
    environment.take_context_change()
    await environment.call(Call("add", {"amount": 2}, "a"))
    await copy.restore(TASK, await environment.checkpoint(), seed=0)
    assert await copy.state_key() == await environment.state_key()
    assert (copy.role, [*copy.tools]) == ("counter", ["add"])
    (reply,) = await copy.respond(Message("assistant", "two"))
    assert reply.text == "It was said: two Submit."


async def test_a_long_task_is_read_whole_and_what_a_stage_says_is_cut():
    text = "Count to 3. " * 1000
    environment = with_pipeline(CounterWithState, [PipelineStage("a", "{task}"), PipelineStage("b", "{a}{task}")])()
    (opening,) = await environment.reset(Task("t", "test/counter-v1", text, parameters={"target": 3}), seed=0)
    (reply,) = await environment.respond(Message("assistant", "x" * 9000))
    assert opening.text == text
    assert reply.text == "x" * MAX_OUTPUT_CHARS + text
