"""Logit hooks on a real vLLM server on the CPU: the masks that it applies are those that this process records."""

from __future__ import annotations

import asyncio
import json
import os
import re

import numpy as np
import pytest
import torch

from agentgym.errors import PolicyError
from agentgym.messages import Call, Message
from agentgym.policy import (
    Hermes,
    Request,
    RetryPolicy,
    Sampling,
    TemplateRenderer,
    VllmPolicy,
    make_model,
    make_tokenizer,
)
from agentgym.policy.checkpoint import save_untied
from agentgym.policy.logit_hooks.served_masks import GRAMMAR
from agentgym.policy.vllm_server import SERVED_NAME, VllmServer

pytestmark = pytest.mark.timeout(900)
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("query", "answer", "näme")]
PATIENT = RetryPolicy(attempt_s=300, total_s=300, attempts=3)
HEAD = re.compile('<tool_call>\n*{"name": "(.*?)", "arguments"')
ASK = (Message("user", "How many orders?"),)
ORDER = {"formula": "query and G(call)", "ending_tools": ["answer"]}


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["query sql SELECT name FROM orders", "How many orders?"] * 3, 400)


@pytest.fixture(scope="module")
def model(tokenizer):
    """A random model that likes to begin calls."""
    model = make_model(tokenizer, layers=2, seed=0).eval()
    begin = tokenizer.convert_tokens_to_ids("<tool_call>")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(3.0)
        state = model.model(torch.arange(100, 200)[None]).last_hidden_state[0].mean(0)
        model.get_output_embeddings().weight[begin] += 8 * state / state.square().sum()
    return model


@pytest.fixture(scope="module")
def address(model, tokenizer, tmp_path_factory):
    server = VllmServer(log=tmp_path_factory.mktemp("log") / "vllm.txt", python=os.environ["AGENTGYM_VLLM_PYTHON"])
    save_untied(model, tokenizer, checkpoint := tmp_path_factory.mktemp("model"))
    try:
        options = "--dtype float32 --max-model-len 512 --max-num-seqs 8 --enforce-eager"
        server.start(checkpoint, options.split(), applies_masks=True)
        asyncio.run(server.wait_until_ready(600))
        yield server.address
    finally:
        server.close()


@pytest.fixture(scope="module")
def renderer(tokenizer):
    return TemplateRenderer(tokenizer, Hermes())


def replies_to(address, renderer, count, *, messages=ASK, turn=0, hook=None, hook_options=None, **sampling):
    """Requests that differ by their seed, and the replies to all of them at once."""
    prompt = renderer.prompt(messages, TOOLS)
    requests = [
        Request(messages, TOOLS, prompt, Sampling(**{"max_tokens": 48, "seed": seed} | sampling), turn=turn)
        for seed in range(count)
    ]

    async def play():
        policy = VllmPolicy(
            address,
            SERVED_NAME,
            renderer=renderer,
            retry_policy=PATIENT,
            logit_hook=hook,
            logit_hook_options=hook_options,
        )
        try:
            return await asyncio.gather(*map(policy.generate, requests))
        finally:
            await policy.close()

    return prompt, asyncio.run(play())


@pytest.mark.parametrize(("hook", "options"), [("known_tools", {}), ("protocol", ORDER)])
@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_the_logprobs_are_those_of_the_masked_distribution(address, model, renderer, hook, options, temperature):
    """By a plain forward pass over each reply, with the masks of the record put on its logits."""
    prompt, replies = replies_to(address, renderer, 24, hook=hook, hook_options=options, temperature=temperature)
    drifts, masked = [], 0
    for reply in replies:
        with torch.no_grad():
            logits = model(torch.tensor([prompt + reply.token_ids])).logits[0, len(prompt) - 1 : -1].double()
        logits /= temperature
        for begin, end, mask in reply.masks:
            named = torch.zeros(logits.shape[1], dtype=torch.bool)
            named[list(mask.ids)] = True
            logits[begin:end, ~named if mask.allowed else named] = -torch.inf
            masked += end - begin
        expected = logits.log_softmax(-1).gather(1, torch.tensor(reply.token_ids)[:, None])[:, 0].numpy()
        drifts += np.abs(np.array(reply.logprobs) - expected).tolist()
    print(
        f"{hook} at {temperature}: {masked} of {len(drifts)} tokens masked, drift {np.mean(drifts):.1e}, "
        f"largest {max(drifts):.1e}"
    )
    assert masked > 100
    assert np.mean(drifts) < 1e-5
    assert max(drifts) < 1e-4


def test_only_tools_that_exist_are_called_however_random_the_model(address, renderer):
    """Without the hook it names none of them."""
    called = {}
    for hook in (None, "known_tools"):
        _, replies = replies_to(address, renderer, 24, hook=hook)
        texts = [renderer.tokenizer.decode(reply.token_ids) for reply in replies]
        called[hook] = {head[1] for text in texts for head in HEAD.finditer(text)}
    assert called[None] == set()
    assert called["known_tools"] == {"query", "answer", "näme"}


def test_each_turn_calls_what_the_formula_allows_after_the_turns_before(address, renderer):
    """A second turn may call what the first one may not."""
    called = {}
    second = (*ASK, Message("assistant", "", (Call("query", {}),)), Message("tool", "7"))
    for turn, messages in enumerate((ASK, second)):
        _, replies = replies_to(
            address, renderer, 24, messages=messages, turn=turn, hook="protocol", hook_options=ORDER
        )
        texts = [renderer.tokenizer.decode(reply.token_ids) for reply in replies]
        called[turn] = {head[1] for text in texts for head in HEAD.finditer(text)}
        assert all(reply.message.calls for reply in replies if reply.finish_reason == "stop")
    assert called[0] == {"query"}
    assert called[1] == {"query", "answer", "näme"}


def test_requests_with_and_without_masks_share_a_batch(address, renderer):
    """More than run at once, of three kinds: each follows its own."""
    free = replies_to(address, renderer, 6)[1]

    async def play():
        policies = [
            VllmPolicy(address, SERVED_NAME, renderer=renderer, retry_policy=PATIENT, **options)
            for options in ({}, {"logit_hook": "known_tools"}, {"logit_hook": "protocol", "logit_hook_options": ORDER})
        ]
        prompt = renderer.prompt(ASK, TOOLS)
        running = [
            policy.generate(Request(ASK, TOOLS, prompt, Sampling(max_tokens=8 + 5 * seed, seed=seed)))
            for seed in range(6)
            for policy in policies
        ]
        replies = await asyncio.gather(*running)
        for policy in policies:
            await policy.close()
        return replies

    replies = asyncio.run(play())
    assert not any(reply.masks for reply in replies[::3])
    assert all(reply.masks for reply in replies[2::3])
    assert sum(a.token_ids[:4] == b.token_ids[:4] for a, b in zip(replies[::3], free, strict=True)) >= 5


def test_a_grammar_that_cannot_be_read_is_refused_and_the_server_goes_on(address, renderer):
    async def ask():
        policy = VllmPolicy(address, SERVED_NAME, renderer=renderer, retry_policy=PATIENT)
        for text in ("no JSON", json.dumps({"settings": {"names": ["a"]}, "end_ids": []})):
            with pytest.raises(PolicyError, match=r"400.*is not a grammar of agentgym"):
                await policy._complete([1, 2], {"max_tokens": 1, "vllm_xargs": {GRAMMAR: text}})
        await policy.close()

    asyncio.run(ask())
    assert replies_to(address, renderer, 1)[1]


def test_a_tokenizer_with_other_tokens_is_refused(address):
    other = TemplateRenderer(make_tokenizer(["other words than those"] * 3, 400), Hermes())
    with pytest.raises(PolicyError, match="logit hook's masks would apply to the wrong tokens"):
        replies_to(address, other, 1, hook="known_tools")
