"""Models that do not end their turns, end them twice, think for ever, or call where they should not, in every family.

Each test says what is recorded, what the model is told, and what is trained: the tokens that it sampled, and no others.
"""

from __future__ import annotations

import pytest
from families import FAMILIES
from scripted_episodes import make_manager, task
from template_tokenizers import tokenizer_of

from agentgym import Budgets, Policy
from agentgym.messages import Call, Message
from agentgym.policy import Reply, TemplateRenderer
from agentgym.policy.formats.choice import call_format_for
from agentgym.rollout.conversation import CUT, EMPTY
from agentgym.testing import Counter, TargetReached
from agentgym.thoughts import THOUGHTS

USABLE = {name: template for name, template in FAMILIES.items() if name != "DeepSeek V3"}
ADD = Call("add", {"amount": 1})


class Sampled(Policy):
    """A policy that samples these tokens in its first turn, and ends its second turn at once."""

    def __init__(self, renderer: TemplateRenderer, token_ids: list[int], finish_reason: str) -> None:
        self.renderer, self._token_ids, self._finish_reason = renderer, token_ids, finish_reason

    async def generate(self, request):
        ids, reason = (self._token_ids, self._finish_reason) if request.turn == 0 else ([], "stop")
        message = self.renderer.parse(ids, request.tools)
        return Reply(message, list(ids), [0.0] * len(ids), finish_reason=reason)


@pytest.fixture(scope="module", params=USABLE)
def renderer(request) -> TemplateRenderer:
    tokenizer = tokenizer_of(USABLE[request.param])
    return TemplateRenderer(tokenizer, call_format_for(tokenizer))


def written(renderer: TemplateRenderer, *calls: Call) -> list[int]:
    return renderer.encode(renderer.numbered(Message("assistant", "", calls), 0))


def in_thought(renderer: TemplateRenderer, text: str, *, closed: bool) -> list[int]:
    """Return the tokens of a thought in the family's marks, or of one that the prompt has begun."""
    template = str(renderer.tokenizer.chat_template)
    opening = renderer.begun_thought or next((mark for mark in THOUGHTS if mark in template), "<think>")
    begun = "" if renderer.begun_thought else opening
    thought = begun + text + THOUGHTS[opening] * closed
    return renderer._agent.encode(thought, add_special_tokens=False).ids


async def first_turn(renderer: TemplateRenderer, token_ids: list[int], finish_reason: str = "stop"):
    """Play the tokens; check that they alone are trained, and that the conversation goes on as the template does."""
    policy = Sampled(renderer, token_ids, finish_reason)
    manager = make_manager(policy, environment=Counter, reward=TargetReached(), budgets=Budgets(max_turns=2))
    [episode] = await manager.collect([task()])
    turn = episode.turns[0]
    assert turn.token_ids == token_ids
    arrays = episode.arrays()
    trained = [token for token, mask in zip(arrays.ids.tolist(), arrays.loss_mask.tolist(), strict=True) if mask]
    assert trained == token_ids
    assert turn.observation_ids == renderer.after_turn(token_ids, turn.observation())
    return turn


def answers_in(turn) -> list[str]:
    return [message.text for message in turn.observation()]


async def test_a_call_without_an_end_is_run_and_the_template_s_end_is_put_after_it(renderer):
    *without, end = written(renderer, ADD)
    turn = await first_turn(renderer, without, "length")
    assert answers_in(turn) == ["1"]
    assert turn.observation_ids[0] == end


async def test_words_without_an_end_are_answered_that_they_were_cut_off(renderer):
    words = renderer.encode(Message("assistant", "word " * 9))[:-1]
    turn = await first_turn(renderer, words, "length")
    assert turn.message.calls == ()
    assert answers_in(turn) == [CUT.format(tokens=len(words))]


async def test_a_turn_that_ends_twice_is_one_turn(renderer):
    ids = written(renderer, ADD)
    turn = await first_turn(renderer, [*ids, ids[-1]])
    assert (len(turn.calls), answers_in(turn)) == (1, ["1"])


async def test_a_thought_without_an_end_says_nothing_and_is_answered_that_it_was_cut_off(renderer):
    ids = in_thought(renderer, "and then " * 20, closed=False)
    turn = await first_turn(renderer, ids, "length")
    assert (turn.message.text, "and then" in turn.message.thought) == ("", True)
    assert answers_in(turn) == [CUT.format(tokens=len(ids))]


async def test_two_calls_are_both_run_also_where_the_template_takes_one(renderer):
    turn = await first_turn(renderer, written(renderer, ADD, Call("add", {"amount": 2}, "call_1")))
    assert answers_in(turn) == ["1", "3"]


@pytest.mark.parametrize("closed", [True, False])
async def test_a_call_in_a_thought_is_not_run(renderer, closed):
    call = renderer.written(renderer.numbered(Message("assistant", "", (ADD,)), 0))
    end = renderer.encode(Message("assistant", ""))[-1:]
    turn = await first_turn(renderer, [*in_thought(renderer, f"perhaps {call} not", closed=closed), *end])
    assert (turn.message.calls, turn.message.text) == ((), "")
    assert answers_in(turn) == [EMPTY]
