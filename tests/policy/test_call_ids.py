"""Families whose calls carry ids: what is written and answered refers to the calls of the whole conversation."""

from __future__ import annotations

import asyncio

import pytest
from scripted_episodes import play
from template_tokenizers import tokenizer_of

from agentgym import Budgets, ScriptedPolicy
from agentgym.errors import PolicyError
from agentgym.messages import Call, Message
from agentgym.policy import TemplateRenderer
from agentgym.policy.contract import with_call_ids
from agentgym.policy.formats.choice import call_format_for
from agentgym.rollout.conversation import Conversation
from agentgym.testing import Counter
from agentgym.training.demonstrate import tokenise
from agentgym.trajectory.turn import Turn

IDS = {
    "own/kimi_k2": ["functions.look:0", "functions.count:1", "functions.look:2", "functions.count:3"],
    "own/cohere": ["0", "1", "2", "3"],
    "own/mistral_nemo": ["call00000", "call00001", "call00002", "call00003"],
    "own/mistral_small": ["call00000", "call00001", "call00002", "call00003"],
}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "count")]
CALLS = (Call("look", {"at": "a"}), Call("count", {"of": "b"}, "call_1"))


def renderer_of(template: str) -> TemplateRenderer:
    tokenizer = tokenizer_of(template)
    return TemplateRenderer(tokenizer, call_format_for(tokenizer))


def transcript_of(template: str, first: int = 0) -> str:
    """Return the template's own text of two turns of two calls, of whose ids the first is number `first`."""
    renderer = renderer_of(template)
    turns = [renderer.numbered(Message("assistant", "", CALLS), first + 2 * turn) for turn in range(2)]
    return renderer.template.conversation("?", turns, [["r0", "r1"], ["r2", "r3"]], TOOLS)


@pytest.mark.parametrize("template", IDS)
def test_two_turns_of_parallel_calls_are_token_for_token_as_the_template_has_them(template):
    renderer = renderer_of(template)
    conversation = Conversation([Message("user", "?")], TOOLS, renderer)
    for index in range(2):
        message = Message("assistant", "", CALLS)
        ids = renderer.encode(with_call_ids(renderer, message, conversation.messages))
        turn = Turn(index, message, message.calls, [], token_ids=ids)
        results = [
            Message("tool", f"r{2 * index + n}", name=call.name, call_id=call.id) for n, call in enumerate(CALLS)
        ]
        conversation.extend(turn, results)
        assert [call.id for call in renderer.parse(ids).calls] == IDS[template][2 * index : 2 * index + 2]
    expected = transcript_of(template)
    assert renderer.tokenizer.decode(conversation.prefix_ids) == expected
    assert conversation.prefix_ids == renderer.tokenizer.encode(expected, add_special_tokens=False)


@pytest.mark.parametrize("template", ["own/kimi_k2", "own/mistral_nemo", "own/mistral_small"])
def test_results_refer_to_the_ids_that_the_agent_wrote_whatever_they_are(template):
    """A sampled call may have any number; the answer must be that call's, also where a program renamed the calls."""
    renderer = renderer_of(template)
    written = renderer.numbered(Message("assistant", "", CALLS), 7)
    ids = renderer.encode(written)
    for names in (("call_0", "call_1"), ("call_3_0", "call_3_1"), [call.id for call in written.calls]):
        results = [Message("tool", "r", name=call.name, call_id=name) for call, name in zip(CALLS, names, strict=True)]
        text = renderer.tokenizer.decode(renderer.after_turn(ids, results))
        assert [call.id in text for call in written.calls] == [True, True]


@pytest.mark.parametrize("template", IDS)
def test_an_id_that_is_written_twice_names_one_call_only(template):
    renderer = renderer_of(template)
    same = renderer.numbered(Message("assistant", "", CALLS), 0).calls[0]
    calls = renderer.parse(renderer.encode(Message("assistant", "", (same, same)))).calls
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize("template", IDS)
def test_demonstrations_are_numbered_over_the_conversation(template):
    """A script is played twice: by a policy with a renderer, and without one, with tokens filled in afterwards."""
    renderer = renderer_of(template)
    script = [Message("assistant", "", (Call("add", {"amount": 1}), Call("add", {"amount": 1}, "call_1")))] * 2

    def trajectory_of(renderer: TemplateRenderer | None):
        budgets = Budgets(max_turns=2)
        return asyncio.run(play(ScriptedPolicy(script, renderer), budgets=budgets))

    with_renderer, without = trajectory_of(renderer), trajectory_of(None)
    without.tools = [tool.shown_schema() for tool in Counter().tools.values()]
    tokenise(without, renderer)
    assert without.arrays().ids.tolist() == with_renderer.arrays().ids.tolist()
    numbers = [call.id for turn in with_renderer.turns for call in renderer.parse(turn.token_ids).calls]
    assert numbers == [name.replace("look", "add").replace("count", "add") for name in IDS[template]]


def test_calls_are_numbered_anew_in_each_message_where_the_template_does():
    tokenizer = tokenizer_of("own/kimi_k2")
    counting = "{{ 'functions.' + call.function.name + ':' + loop.index0|string }}"
    tokenizer.chat_template = tokenizer.chat_template.replace("{{ call.id }}", counting)
    renderer = TemplateRenderer(tokenizer, call_format_for(tokenizer))
    assert [call.id for call in renderer.numbered(Message("assistant", "", CALLS), 5).calls] == IDS["own/kimi_k2"][:2]


def test_a_template_that_makes_the_ids_itself_is_answered_with_those_that_the_agent_wrote():
    renderer = renderer_of("own/cohere")
    ids = renderer.encode(renderer.numbered(Message("assistant", "", CALLS), 7))
    results = [Message("tool", "r", name=call.name, call_id=call.id) for call in CALLS]
    text = renderer.tokenizer.decode(renderer.after_turn(ids, results))
    assert [f'"tool_call_id": "{number}"' in text for number in (0, 1, 7, 8)] == [False, False, True, True]


def test_a_template_that_cannot_write_calls_is_refused_with_the_reason_and_the_remedy():
    tokenizer = tokenizer_of("own/kimi_k2")
    tokenizer.chat_template = "{% set seen = [] %}" + tokenizer.chat_template.replace(
        "<|tool_call_begin|>", "{% set _ = seen.append(1) %}<|tool_call_begin|>"
    )
    with pytest.raises(PolicyError, match=r"cannot render .*append.*Name a call format .*or another template"):
        call_format_for(tokenizer)
    assert call_format_for(tokenizer, "kimi_k2").name == "kimi_k2"
