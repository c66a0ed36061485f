"""Thought correction: what a corrector is asked, what the agent imitates of its answers, and whole runs with it."""

from __future__ import annotations

import pytest
from lookup_runs import execute, small

from agentgym import Message, ScriptedPolicy, Task, Trajectory, Turn, register
from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.errors import PolicyError, RecipeError
from agentgym.messages import Call, Result, StopReason
from agentgym.methods.thought_correction import ThoughtCorrector
from agentgym.storage.run_folder import RunFolder
from agentgym.testing import ByteRenderer
from agentgym.training import Recipe, Rollouts

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")


def turns_with_thoughts() -> Trajectory:
    renderer, task = ByteRenderer(), Task("t", "test/none-v1", "Where is it?")
    call = Call("look", {"box": "a"}, "c1")
    messages = [Message("assistant", "I look into b.", (call,)), Message("assistant", "It is there.")]
    result = Result("empty", name="look", call_id="c1")
    first = Turn(0, messages[0], (call,), (result,), token_ids=renderer.encode(messages[0]))
    first.observation_ids = renderer.observation([result.message()])
    last = Turn(1, messages[1], token_ids=renderer.encode(messages[1]))
    prompt = renderer.prompt(task.opening(), [])
    return Trajectory("t#0", task, prompt_ids=prompt, turns=[first, last], stop_reason=StopReason.ANSWERED)


def test_a_corrected_thought_is_learnt_after_what_the_agent_was_shown():
    questions = []

    def correct(messages):
        questions.append(messages[-1].text)
        return Message("assistant", "I look into a." if "box" in messages[-1].text else "")

    trajectory, renderer = turns_with_thoughts(), ByteRenderer()
    with Rollouts() as rollouts:
        corrector = ThoughtCorrector(ScriptedPolicy(correct), rollouts, renderer)
        ((row, corrected),) = corrector.correct([trajectory])
    assert row == 0
    assert "Where is it?" in questions[0]
    assert "I look into b." in questions[0]
    assert '"box": "a"' in questions[0]
    assert "empty" in questions[1]
    assert corrected.prompt_ids == trajectory.prompt_ids
    assert corrected.turns[0].token_ids == renderer.encode(Message("assistant", "I look into a."))[:-1]


class Rewriting(ScriptedPolicy):
    """A corrector as a recipe names it, with an option."""

    closed = 0

    def __init__(self, *, thought: str) -> None:
        super().__init__(lambda messages: Message("assistant", thought))

    async def close(self) -> None:
        Rewriting.closed += 1


def test_a_run_corrects_the_thoughts_of_its_agent_and_closes_the_corrector(tmp_path):
    """The agent, hardly trained, writes text and no calls."""
    corrections = {"policy": "test_rewriting", "options": {"thought": "train 1"}, "turns_per_step": 1}
    register("test_rewriting", Rewriting, kind="policies")
    execute(small(kl=0.0, terms={"thought_sft": {}}, parts={"corrections": corrections}), tmp_path / "run")
    (row,) = RunFolder(tmp_path / "run").metrics("train")
    assert row["loss/thought_sft"] > 0
    assert row["grad_norm"] > 0
    assert Rewriting.closed == 1
    wrong = {**corrections, "options": {"idea": "?"}}
    with pytest.raises(RecipeError, match=r"'test_rewriting' cannot be made with the options \['idea'\]"):
        execute(small(kl=0.0, terms={"thought_sft": {}}, parts={"corrections": wrong}), tmp_path / "wrong")
    assert not (tmp_path / "wrong" / "checkpoints" / "warm_start").exists()


def test_the_key_that_a_corrector_had_before_still_names_it():
    data = small(kl=0.0, terms={"thought_sft": {}}).model_dump(exclude_none=True)
    data["train"]["corrections"] = {"policy": "test_rewriting"}
    with pytest.warns(AgentGymDeprecationWarning, match=r"train.corrections is now train.parts.corrections"):
        recipe = Recipe.parse(data)
    assert recipe.train.parts == {"corrections": {"policy": "test_rewriting"}}


def test_a_corrector_is_asked_about_first_turns_first_and_may_fail():
    questions = []

    def fail(messages):
        questions.append(messages[-1].text)
        raise PolicyError("The server is gone.")

    with Rollouts() as rollouts:
        corrector = ThoughtCorrector(ScriptedPolicy(fail), rollouts, ByteRenderer(), turns_per_step=2)
        assert corrector.correct([turns_with_thoughts(), turns_with_thoughts()]) == []
    assert len(questions) == 2
    assert all("I look into b." in question for question in questions)
