"""Logit hooks: what may be sampled, and that the recorded log-probabilities are those of the masked distribution."""

from __future__ import annotations

import asyncio
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import PolicyError, UnknownNameError
from agentgym.formats.tags import Tags
from agentgym.messages import Call, Message
from agentgym.policy import Hermes, Request, Sampling, TemplateRenderer, TransformersPolicy, make_model
from agentgym.policy.logit_hooks.contract import make_hook
from agentgym.policy.logit_hooks.hermes_masks import HermesTurns
from agentgym.registry import register
from agentgym.trajectory import TokenMask

TOOLS = [{"function": {"name": name}} for name in ("query", "answer", "n\u00e4me")]


@pytest.fixture(scope="module")
def model(tokenizer):
    """A random model that likes to begin calls."""
    torch.manual_seed(1)
    model = make_model(tokenizer, hidden=32, layers=2, heads=2, kv_heads=1).eval()
    bias = torch.zeros(model.config.vocab_size)
    bias[tokenizer.convert_tokens_to_ids("<tool_call>")] = 4.0
    model.lm_head.bias = torch.nn.Parameter(bias)
    return model


def alive(grammar: HermesTurns, text: str):
    state = grammar.start
    for byte in text.encode().decode("latin-1"):
        if (state := grammar.step(state, byte)) is None:
            return None
    return state


def turns(**options) -> HermesTurns:
    return HermesTurns(["query", "answer"], **{"may_answer": True, **options})


CALL = '<tool_call>{"name": "query", "arguments": {"sql": "a } \\" < ]", "n": [1, {"x": 2}]}}</tool_call>'


@pytest.mark.parametrize(
    ("text", "follows", "ends"),
    [
        ("", True, True),
        ("Free < text <tool_cal <tool_cx", True, True),
        (CALL, True, True),
        (f"words {CALL} and {CALL}", True, True),
        (CALL.replace('<tool_call>{"name"', '<tool_call>\n{"name"').replace("}}</", "}}\n</"), True, True),
        (CALL[:-1], True, False),
        ('<tool_call>{"name": "drop', False, False),
        ('<tool_call>{"name": "quer"', False, False),
        ('<tool_call>{"arguments": ', False, False),
        ('<tool_call>[{"name": "query"', False, False),
        (CALL.replace("}}</tool_call>", '}, "name": "drop"}</tool_call>'), False, False),
        ('<tool_call>{"name": "query", "arguments": {"a": "<tool_call>', False, False),
        ('<tool_call>{"name": "query", "arguments": {"a": "line\n', False, False),
        ("<think>I may <tool_call>drop</tool_call></think>" + CALL, True, True),
        (" <thin", True, True),
        ("so <think>", False, False),
        ('<tool_call>{"name": "nä', False, False),
    ],
)
def test_a_turn_is_free_text_and_calls_as_the_format_writes_them(text, follows, ends):
    state = alive(turns(), text)
    assert (state is not None) == follows
    assert state is None or turns().may_end(state) == ends


@pytest.mark.parametrize("begun", ["", " ", "[", "[TH", "<", "<thi", "a", "[THINK]", "<think>", CALL[:50]])
def test_a_free_state_refuses_only_decisive_bytes(begun):
    """Masks of free states look at tokens with decisive bytes alone."""
    grammar = turns()
    state = alive(grammar, begun)
    refused = {byte for byte in map(chr, range(256)) if grammar.step(state, byte) is None}
    assert not grammar.is_free(state) or refused <= set(grammar.decisive)


def test_a_turn_may_have_to_call_and_may_be_out_of_calls():
    must = turns(may_answer=False, max_calls=1)
    assert not must.may_end(alive(must, "Hm."))
    assert must.may_end(alive(must, CALL))
    assert alive(must, CALL + "<tool_call>") is None
    assert alive(HermesTurns([], may_answer=True), "<tool_call>") is None
    thinking = turns(begun_thought="<think>")
    assert alive(thinking, "a <tool_call>{ </think>" + CALL) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8", exclude_characters="<")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(
    arguments=st.dictionaries(
        st.text(st.characters(exclude_characters="<", codec="utf-8"), max_size=5), JSON, max_size=3
    )
)
def test_every_call_that_the_format_writes_may_be_written(arguments):
    assert alive(turns(), Hermes().render((Call("query", arguments),))) is not None


def sampled(policy, count, *, tools=TOOLS, **options):
    prompt = policy.renderer.prompt([Message("user", "How many?")], [])

    async def play():
        sampling = [Sampling(max_tokens=24, seed=seed, **options) for seed in range(count)]
        requests = [
            Request([], tools=tools, prefix_ids=prompt, sampling=each, episode=f"e{n}")
            for n, each in enumerate(sampling)
        ]
        return await asyncio.gather(*map(policy.generate, requests))

    return prompt, asyncio.run(play())


def test_the_logprobs_are_those_of_the_masked_distribution(model, renderer):
    """By a plain forward pass over each reply, with the masks of the record put on its logits."""
    policy = TransformersPolicy(model, renderer, logit_hook="known_tools")
    prompt, replies = sampled(policy, 6, temperature=0.7)
    assert any(reply.masks for reply in replies)
    for reply in replies:
        with torch.no_grad():
            logits = model(torch.tensor([prompt + reply.token_ids])).logits[0, len(prompt) - 1 : -1].double() / 0.7
        for begin, end, mask in reply.masks:
            named = torch.zeros(logits.shape[1], dtype=torch.bool)
            named[list(mask.ids)] = True
            logits[begin:end, ~named if mask.allowed else named] = -torch.inf
        expected = logits.log_softmax(-1).gather(1, torch.tensor(reply.token_ids)[:, None])[:, 0]
        np.testing.assert_allclose(reply.logprobs, expected.numpy(), atol=1e-5)


def test_only_tools_that_exist_are_called_however_random_the_model(tokenizer, model, renderer):
    """Without the hook it names none of them."""

    called = {}
    for hook in (None, "known_tools"):
        policy = TransformersPolicy(model, renderer, logit_hook=hook)
        _, replies = sampled(policy, 20)
        texts = [tokenizer.decode(reply.token_ids) for reply in replies]
        heads = (re.search('<tool_call>\n*{"name": "(.*?)", "arguments"', text) for text in texts)
        called[hook] = {head[1] for head in heads if head}
    assert called[None] == set()
    assert called["known_tools"] == {"query", "answer", "n\u00e4me"}


def test_a_policy_without_a_hook_samples_what_it_did(model, renderer):
    free = TransformersPolicy(model, renderer)
    _, first = sampled(free, 4)

    def nothing(renderer, end_ids):
        return lambda request: None

    register("nothing", nothing, kind="logit_hooks")
    _, second = sampled(TransformersPolicy(model, renderer, logit_hook="nothing"), 4)
    assert [(r.token_ids, r.logprobs, list(r.masks)) for r in first] == [
        (r.token_ids, r.logprobs, list(r.masks)) for r in second
    ]


def test_runs_of_one_mask_are_recorded_as_one(model, renderer):
    mask = TokenMask((5, 6), allowed=True)
    register("two_tokens", lambda renderer, end_ids: lambda request: lambda tokens: mask, kind="logit_hooks")
    _, [reply] = sampled(TransformersPolicy(model, renderer, logit_hook="two_tokens"), 1)
    assert set(reply.token_ids) == {5, 6}
    assert list(reply.masks) == [(0, 24, mask)]


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("known_tool", {}, UnknownNameError, "Did you mean 'known_tools'"),
        ("known_tools", {"strict": True}, PolicyError, "the options {'strict': True}.*Its options are: none"),
    ],
)
def test_a_hook_or_an_option_that_does_not_exist_is_refused(renderer, name, options, error, message):
    with pytest.raises(error, match=message):
        make_hook(name, renderer, [2], options)


def test_another_call_format_is_refused_by_name(tokenizer):
    with pytest.raises(PolicyError, match="'hermes', but this model writes its calls as 'tags'"):
        make_hook("known_tools", TemplateRenderer(tokenizer, Tags()), [2])
