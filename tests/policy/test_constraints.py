"""What programs ask of a message: a call that must be made, JSON, one call, and texts where it ends."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import ScriptedPolicy
from agentgym.errors import PolicyError
from agentgym.messages import Call, Message
from agentgym.policy import PolicyPool, Request, Sampling, TemplateRenderer, TransformersPolicy, make_model
from agentgym.policy.contract import Constraints, Policy
from agentgym.policy.logit_hooks.constraint_hooks import opening_of
from agentgym.policy.logit_hooks.grammars import AfterThoughts, ForcedCall, JsonObject
from agentgym.registry import load
from agentgym.thoughts import split_thoughts

TOOLS = [{"function": {"name": name}} for name in ("query", "answer")]
FORMATS = ("hermes", "qwen_xml", "llama3", "mistral", "pythonic", "glm", "kimi_k2", "minimax", "deepseek_v31")


def alive(grammar, text: str):
    state = grammar.start
    for byte in text.encode().decode("latin-1"):
        if (state := grammar.step(state, byte)) is None:
            return None
    return state


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(value=st.dictionaries(st.text(max_size=4), JSON, max_size=3), indent=st.sampled_from([None, 2]))
def test_every_json_object_may_be_written(value, indent):
    for is_ascii in (False, True):
        text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
        if "\\ud" in text:
            continue  # escaped pairs of surrogates: their characters can be written instead
        state = alive(JsonObject(), text)
        assert state is not None
        assert JsonObject().may_end(state)


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from('{}[]",:0-1.e+tru \\"nul'), max_size=12).map("{".__add__))
def test_what_may_end_is_json(text):
    state = alive(JsonObject(), text)
    if state is not None and JsonObject().may_end(state):
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize(
    "text", ["[1]", " {", '{"a" 1}', "{,", '{"a": 01', '{"a": 1.}', '{"a": "\\x', "{]", '{"a": 1} {']
)
def test_what_is_not_json_may_not_be_written(text):
    assert alive(JsonObject(), text) is None


def test_a_forced_call_may_follow_thoughts_and_nothing_else():
    grammar = AfterThoughts(ForcedCall(["<tool_call>{", "[go("]))
    for text in ("<tool_call>{anything", "\n[go(1", "<think>so <tool_call></think>\n\n<tool_call>{"):
        assert grammar.may_end(alive(grammar, text)), text
    for text in ("", "<think>so", "<tool_call>", "</think>"):
        state = alive(grammar, text)
        assert state is None or not grammar.may_end(state), text
    assert alive(grammar, "Well") is None
    begun = AfterThoughts(ForcedCall(["<tool_call>{"]), "<think>")
    assert begun.may_end(alive(begun, "<tool_call> no </think><tool_call>{"))


@pytest.mark.parametrize("name", FORMATS)
def test_the_opening_of_a_call_begins_every_call_of_the_tool(name, tokenizer, tools):
    renderer = TemplateRenderer(tokenizer, load("call_formats", name)())
    opening = opening_of(renderer, tools[0])
    assert "query" in opening
    for arguments in ({"sql": "SELECT 1"}, {"sql": ""}, {"sql": "a", "more": "b"}):
        assert renderer.written(Message("assistant", "", (Call("query", arguments),))).lstrip().startswith(opening)


def test_a_call_that_cannot_be_written_is_named(tokenizer):
    renderer = TemplateRenderer(tokenizer, load("call_formats", "glm")())
    with pytest.raises(PolicyError, match="'glm' has no opening of a call of"):
        opening_of(renderer, {"function": {"name": "a b>"}})


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(1)
    return make_model(tokenizer, hidden=32, layers=2, heads=2, kv_heads=1).eval()


def sampled(policy, constraints, count=8, max_tokens=48, tools=TOOLS):
    prompt = policy.renderer.prompt([Message("user", "How many?")], [])

    async def play():
        requests = [
            Request([], tools, prompt, Sampling(max_tokens=max_tokens, seed=seed), f"e{seed}", constraints=constraints)
            for seed in range(count)
        ]
        await asyncio.gather(*map(policy.check, requests))
        return await asyncio.gather(*map(policy.generate, requests))

    return prompt, asyncio.run(play())


def test_a_random_model_calls_the_tool_that_it_must_with_the_logprobs_of_the_masked_distribution(model, renderer):
    policy = TransformersPolicy(model, renderer)
    prompt, replies = sampled(policy, Constraints(tool_choice=("answer",)))
    for reply in replies:
        speech = split_thoughts(renderer.tokenizer.decode(reply.token_ids))[1].lstrip()
        assert speech.startswith('<tool_call>{"name": "answer", "arguments": {') or not speech
        with torch.no_grad():
            logits = model(torch.tensor([prompt + reply.token_ids])).logits[0, len(prompt) - 1 : -1].double()
        for begin, end, mask in reply.masks:
            named = torch.zeros(logits.shape[1], dtype=torch.bool)
            named[list(mask.ids)] = True
            logits[begin:end, ~named if mask.allowed else named] = -torch.inf
        expected = logits.log_softmax(-1).gather(1, torch.tensor(reply.token_ids)[:, None])[:, 0]
        np.testing.assert_allclose(reply.logprobs, expected.numpy(), atol=1e-5)
    _, replies = sampled(policy, Constraints(tool_choice=("answer", "query")), count=24)
    texts = [split_thoughts(renderer.tokenizer.decode(reply.token_ids))[1].lstrip() for reply in replies]
    assert {text.split('"')[3] for text in texts if text} == {"answer", "query"}


def test_a_random_model_writes_json(model, renderer):
    _, replies = sampled(TransformersPolicy(model, renderer), Constraints(response_format={}), max_tokens=400)
    ended = [reply for reply in replies if reply.finish_reason == "stop"]
    assert ended
    assert all(isinstance(json.loads(reply.message.text), dict) for reply in ended)


def test_constraints_that_cannot_be_held_are_refused_before_anything_is_sampled(model, renderer):
    hooked = TransformersPolicy(model, renderer, logit_hook="known_tools")
    schema = Constraints(response_format={"type": "object"})
    for policy, constraints, message in (
        (TransformersPolicy(model, renderer), schema, "not one of a given schema"),
        (hooked, Constraints(tool_choice=("answer",)), "'known_tools' already restricts"),
        (Policy(), schema, "cannot be made"),
        (PolicyPool([Policy()]), schema, "cannot be made"),
    ):
        with pytest.raises(PolicyError, match=message):
            asyncio.run(policy.check(Request([], TOOLS, constraints=constraints)))
    asyncio.run(hooked.check(Request([], TOOLS)))


def test_sampling_ends_at_a_stop_text_of_the_speech_and_at_the_first_call(model, renderer):
    """The sampled tokens stay as they are: the stop text is among them."""
    policy = TransformersPolicy(model, renderer)
    free = [renderer.tokenizer.decode(reply.token_ids) for reply in sampled(policy, Constraints())[1]]
    stop = free[0][20:22]
    assert stop.strip()
    for text, reply in zip(free, sampled(policy, Constraints(stop=(stop,)))[1], strict=True):
        written = renderer.tokenizer.decode(reply.token_ids)
        assert text.startswith(written)
        assert (stop in written) == (stop in text)
        assert stop not in renderer.tokenizer.decode(reply.token_ids[:-1])
    call = renderer.written(Message("assistant", "", (Call("answer", {}),)))
    ids = renderer.tokenizer.encode(call + call, add_special_tokens=False)
    ended = policy._ended(Request([], TOOLS, constraints=Constraints(one_call=True)))
    first = next(count for count in range(1, len(ids)) if ended(ids[:count]))
    assert renderer.tokenizer.decode(ids[:first]) == call


def test_a_script_must_hold_what_its_reader_asks():
    constraints = Constraints(tool_choice=("go",))
    script = ScriptedPolicy([Message("assistant", "", (Call("go"),)), "No."])
    assert asyncio.run(script.generate(Request([], constraints=constraints))).message.calls
    with pytest.raises(PolicyError, match="'No\\.' does not call go"):
        asyncio.run(script.generate(Request([], turn=1, constraints=constraints)))
    with pytest.raises(PolicyError, match="'No\\.' is not a JSON object"):
        asyncio.run(script.generate(Request([], turn=1, constraints=Constraints(response_format={}))))
