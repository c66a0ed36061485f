"""Rewards that ask a model how likely an answer is: by hand with known probabilities, and a real tiny model."""

from __future__ import annotations

import math

import pytest

from agentgym import (
    Call,
    Combined,
    Environment,
    EpisodeManager,
    JudgeError,
    Message,
    Policy,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    tool,
)
from agentgym.rewards.answer_consistency import AnswerConsistency
from agentgym.rewards.answer_likelihood import before_answer
from agentgym.rewards.answer_match import AnswerMatch
from agentgym.rewards.reference_probability import ReferenceProbability
from agentgym.testing import ByteRenderer


class Ask(Environment):
    """Look, then answer. Nothing to be isolated."""

    @tool(inline=True)
    def look(self) -> str:
        """Look."""
        return "Paris"

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Answer."""
        return "Answered."


class Believes(Policy):
    """Gives every token of a continuation one probability: high after a certain text, low else."""

    name = "believes"

    def __init__(self, renderer, after, high=0.8, low=0.1):
        self.renderer, self.after, self.high, self.low, self.prefixes = renderer, after, high, low, []

    async def score(self, prefix_ids, continuation_ids):
        prefix = bytes(token for token in prefix_ids if token < 256).decode()
        self.prefixes.append((prefix, len(continuation_ids)))
        return [math.log(self.high if self.after in prefix else self.low)] * len(continuation_ids)


def episode_of(*texts):
    """Played for real, token-exact, one byte a token: each text reasons and then calls."""
    return [Message("assistant", text, (call,)) for text, call in texts]


async def play(judge, *scripts, truth="Paris"):
    renderer = ByteRenderer()
    tasks = [Task("t", "x/y-v1", "Where?", truth={"answer": truth})]
    scripts = list(scripts)

    def policy(task):
        return ScriptedPolicy(scripts.pop(0), renderer)

    manager = EpisodeManager(policy, RolloutConfig(environment=Ask, reward=judge, concurrency=1))
    return await manager.collect(tasks, len(scripts))


def answer(text, reasoning=""):
    return episode_of((reasoning, Call("answer", {"text": text})))


async def test_the_reference_is_scored_after_the_reasoning_and_without_it_and_the_difference_counts():
    """0.8 after the reasoning less 0.1 without it: 0.7, whatever the episode itself answered."""
    policy = Believes(ByteRenderer(), after="it is in France")
    (trajectory,) = await play(ReferenceProbability(policy), answer("Rome", "it is in France"))
    assert trajectory.outcome == {"reference_probability": pytest.approx(0.7), "reference_raw": pytest.approx(0.8)}
    assert [prefix for prefix, _ in policy.prefixes] == ["Where?it is in France", "Where?"]
    assert trajectory.outcome_reward == pytest.approx(0.7)


async def test_reasoning_that_makes_the_reference_less_likely_earns_nothing_and_never_less():
    policy = Believes(ByteRenderer(), after="nonsense", high=0.1, low=0.8)
    (trajectory,) = await play(ReferenceProbability(policy), answer("Paris", "nonsense"))
    assert trajectory.outcome["reference_probability"] == 0.0
    (raw,) = await play(ReferenceProbability(policy, debias=False), answer("Paris", "nonsense"))
    assert raw.outcome["reference_probability"] == pytest.approx(0.1)


async def test_the_answer_that_was_given_does_not_stand_before_the_reference():
    """Else an agent could write the likely text into its answer, and its own words would raise the reference."""
    policy = Believes(ByteRenderer(), after="Rome")
    (trajectory,) = await play(ReferenceProbability(policy), answer("Rome", "well"))
    assert policy.prefixes[0][0] == "Where?well"
    ids = policy.renderer.encode(Message("assistant", "", (Call("answer", {"text": "Rome"}),)))
    assert before_answer(trajectory, ids)[-4:] == list(b"well")


async def test_results_of_earlier_turns_stand_before_the_answer():
    policy = Believes(ByteRenderer(), after="Paris")
    script = [*episode_of(("", Call("look"))), *answer("Paris")]
    (trajectory,) = await play(ReferenceProbability(policy), script)
    assert trajectory.outcome["reference_raw"] == pytest.approx(0.8)


async def test_right_answers_that_follow_from_their_reasoning_get_the_bonus():
    """Three right ones with 0.8, 0.8 and 0.1: mean 0.57, so the third has none; nor has the wrong one."""
    policy = Believes(ByteRenderer(), after="capital")
    judge = Combined(AnswerMatch(), AnswerConsistency(policy))
    scripts = [
        answer("Paris", "the capital"),
        answer("Paris", "a capital"),
        answer("Paris", "no idea"),
        answer("Rome", "capital"),
    ]
    trajectories = await play(judge, *scripts)
    assert [t.outcome["success"] for t in trajectories] == [1.0, 1.0, 1.0, 0.0]
    assert [t.outcome["consistency"] for t in trajectories] == [1.0, 1.0, 0.0, 0.0]
    assert [t.outcome["answer_likelihood"] for t in trajectories] == pytest.approx([0.8, 0.8, 0.1, 0.8])
    assert [t.outcome_reward for t in trajectories] == [1.5, 1.5, 1.0, 0.0]


async def test_certainty_counts_at_most_so_much_so_that_equals_are_not_told_apart():
    judge = Combined(AnswerMatch(), AnswerConsistency(Believes(ByteRenderer(), after="sure", high=0.999, low=0.96)))
    trajectories = await play(judge, answer("Paris", "sure"), answer("Paris", "maybe"))
    assert [t.outcome["consistency"] for t in trajectories] == [1.0, 1.0]
    assert trajectories[0].outcome["answer_likelihood"] == pytest.approx(0.95)


async def test_where_nobody_can_be_asked_nothing_is_judged():
    (first,) = await play(ReferenceProbability(), answer("Paris"))
    assert "needs a policy that can score tokens" in first.error
    (second,) = await play(Combined(AnswerMatch(), AnswerConsistency(ScriptedPolicy([]))), answer("Paris"))
    assert "has no renderer" in second.error
    with pytest.raises(JudgeError, match="the component 'success'"):
        await AnswerConsistency(Believes(ByteRenderer(), "x")).group([first])


async def test_an_episode_whose_tokens_are_not_known_has_no_such_component_and_is_judged_by_the_others():
    """As an oracle's, whose demonstrations a recipe's reward judges before anything is trained."""
    judge = Combined(AnswerMatch(), AnswerConsistency(), ReferenceProbability())
    script = ScriptedPolicy(answer("Paris"))
    manager = EpisodeManager(lambda task: script, RolloutConfig(environment=Ask, reward=judge))
    trajectories = await manager.collect([Task("t", "x/y-v1", "Where?", truth={"answer": "Paris"})], 2)
    assert [(t.error, t.outcome) for t in trajectories] == [(None, {"success": 1.0})] * 2


@pytest.fixture(scope="module")
def tiny():
    pytest.importorskip("torch")
    from agentgym.policy import Hermes, TemplateRenderer, TransformersPolicy, make_model, make_tokenizer

    tokenizer = make_tokenizer(["Where? Look, then answer Paris or Rome."] * 4, 400)
    policy = TransformersPolicy(make_model(tokenizer, hidden=32, layers=1), TemplateRenderer(tokenizer, Hermes()))
    return policy


async def test_the_policy_that_plays_is_asked_itself_where_it_can_score(tiny):
    """A real model of random weights: its own probabilities, recomputed here by hand."""
    judge = ReferenceProbability(debias=False)
    judge.bind_policy(tiny)
    renderer = tiny.renderer
    script = ScriptedPolicy(answer("Rome", "Look."), renderer)
    manager = EpisodeManager(lambda task: script, RolloutConfig(environment=Ask, reward=judge))
    (trajectory,) = await manager.collect([Task("t", "x/y-v1", "Where?", truth={"answer": "Paris"})])
    assert trajectory.error is None
    gold = renderer.encode(Message("assistant", "", (Call("answer", {"text": "Paris"}),)))
    own = renderer.encode(Message("assistant", "", (Call("answer", {"text": "Rome"}),)))
    logprobs = await tiny.score(before_answer(trajectory, own), gold)
    assert trajectory.outcome["reference_probability"] == pytest.approx(sum(map(math.exp, logprobs)) / len(gold))


async def test_the_copy_follows_the_policy_slowly_and_only_every_so_many_steps(tiny):
    """One update with decay 0.9 after the weights moved by 1: the copy moves by 0.1."""
    torch = pytest.importorskip("torch")
    judge = AnswerConsistency(decay=0.9, every=2)
    judge.bind_policy(tiny)
    judge.bind_policy(tiny)  # a second introduction makes no second copy
    slow, fast = (next(policy.model.parameters()) for policy in (judge.reference, tiny))
    before = slow.detach().clone()
    assert slow is not fast
    with torch.no_grad():
        fast.add_(1.0)
    judge.set_progress(0.0)
    judge.set_progress(0.1)
    assert torch.equal(slow, before)
    judge.set_progress(0.2)
    torch.testing.assert_close(slow, before + 0.1)
    await judge.reference.close()
