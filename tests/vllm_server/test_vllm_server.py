"""Both HTTP policies against a real vLLM server on the CPU, which serves the tiny model with random weights."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace

import pytest
import torch

from agentgym.bridges.chat_api import ChatApiPolicy
from agentgym.errors import ContextFull, PolicyError
from agentgym.messages import Message
from agentgym.policy import (
    Hermes,
    Request,
    RetryPolicy,
    Sampling,
    TemplateRenderer,
    TransformersPolicy,
    VllmPolicy,
    make_model,
    make_tokenizer,
)
from agentgym.policy.adapters import merged, new_adapter
from agentgym.policy.checkpoint import save_model, save_untied
from agentgym.policy.load_options import LoraOptions
from agentgym.policy.vllm_server import SERVED_NAME, VllmServer

pytestmark = pytest.mark.timeout(900)
OPENING = (Message("system", "Use SQL."), Message("user", "How many orders?"))
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "query",
            "description": "Run one SELECT.",
            "parameters": {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]},
        },
    }
]
ONCE = RetryPolicy(attempt_s=300, total_s=300, attempts=1)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Two checkpoints of one architecture: the one that is served, and the one that replaces it."""
    tokenizer = make_tokenizer(["query sql SELECT name FROM orders", "How many orders?"] * 3, 400)
    paths = []
    for seed in (0, 1):
        model = make_model(tokenizer, layers=2, seed=seed)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.mul_(3.0)  # far from a flat distribution, so that a wrong token would show
        paths.append(tmp_path_factory.mktemp("model") / str(seed))
        save_untied(model, tokenizer, paths[-1])
    return paths


@pytest.fixture(scope="module")
def url(checkpoints, tmp_path_factory):
    """Address of a server that lives as long as this module."""
    server = VllmServer(log=tmp_path_factory.mktemp("log") / "vllm.txt", python=os.environ["AGENTGYM_VLLM_PYTHON"])
    options = "--dtype float32 --max-model-len 256 --max-num-seqs 32 --enforce-eager --enable-auto-tool-choice "
    options += "--tool-call-parser hermes --max-logprobs -1 --enable-lora --max-lora-rank 8 --max-loras 2"
    try:
        server.start(checkpoints[0], options.split())
        asyncio.run(server.wait_until_ready(600))  # usually half a minute; a busy machine needs more
        yield server.address
    finally:
        server.close()


@pytest.fixture
async def served(url, checkpoints):
    policy = VllmPolicy(url, SERVED_NAME, tokenizer=str(checkpoints[0]), retry_policy=ONCE)
    yield policy
    await policy.close()


@pytest.fixture
async def local(served, checkpoints):
    """The same weights in this process."""
    policy = _local(checkpoints[0])
    yield policy
    await policy.close()


def _local(path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    renderer = TemplateRenderer(AutoTokenizer.from_pretrained(path), Hermes())
    return TransformersPolicy(AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32), renderer)


def request_for(policy, **sampling):
    prefix = policy.renderer.prompt(OPENING, TOOLS)
    return Request(OPENING, TOOLS, prefix, Sampling(**{"max_tokens": 24, "seed": 1} | sampling))


async def test_log_probabilities_are_those_of_the_same_weights_here(served, local):
    """float32 on both sides; measured differences are about 1e-6."""
    request = request_for(served)
    reply = await served.generate(request)
    assert reply.logprobs == pytest.approx(await local.score(request.prefix_ids, reply.token_ids), abs=1e-4)
    assert await served.score(request.prefix_ids, reply.token_ids) == pytest.approx(reply.logprobs, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
async def test_log_probabilities_are_tempered_as_in_this_process(served, local, temperature):
    request = request_for(served, temperature=temperature)
    reply = await served.generate(request)
    with torch.no_grad():
        ids = torch.tensor([[*request.prefix_ids, *reply.token_ids]])
        logits = local.model(ids).logits[0, len(request.prefix_ids) - 1 : -1].double() / temperature
    expected = torch.log_softmax(logits, -1)[range(len(reply.token_ids)), reply.token_ids]
    assert reply.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


async def test_greedy_decoding_agrees_token_by_token(served, local):
    request = request_for(served, temperature=0.0)
    there, here = await served.generate(request), await local.generate(request)
    assert there.token_ids == here.token_ids
    assert there.logprobs == pytest.approx(here.logprobs, abs=1e-4)


async def test_a_seed_repeats_a_reply_and_many_at_once_all_come_back(served):
    requests = [request_for(served, seed=seed % 16) for seed in range(32)]
    replies = await asyncio.gather(*map(served.generate, requests))
    # Two copies may be decoded in different batches, and rounding then moves a token now and then.
    same = [first.token_ids[:4] == other.token_ids[:4] for first, other in zip(replies[:16], replies[16:], strict=True)]
    assert sum(same) >= 14
    assert len({tuple(reply.token_ids) for reply in replies}) > 12


async def test_a_turn_ends_with_its_end_token_and_the_next_one_continues_it(served, local):
    """The end of turn is among the tokens, with its log-probability; else the next turn would be spliced wrongly."""
    replies = await asyncio.gather(
        *(served.generate(request_for(served, seed=seed, max_tokens=120)) for seed in range(64))
    )
    stopped = [reply for reply in replies if reply.finish_reason == "stop"]
    assert stopped
    end = served.renderer.end_of_turn_id
    assert all(reply.token_ids[-1] == end and end not in reply.token_ids[:-1] for reply in stopped)
    assert all(end not in reply.token_ids for reply in replies if reply.finish_reason == "length")
    first = request_for(served)
    prefix = [*first.prefix_ids, *stopped[0].token_ids, *served.renderer.observation([Message("tool", "7")])]
    request = replace(first, prefix_ids=prefix)
    reply = await served.generate(request)
    assert reply.logprobs == pytest.approx(await local.score(prefix, reply.token_ids), abs=1e-4)


async def test_a_full_context_is_told(served):
    with pytest.raises(ContextFull, match="256"):
        await served.generate(replace(request_for(served), prefix_ids=[5] * 256))
    reply = await served.generate(replace(request_for(served), prefix_ids=[5] * 250))
    assert len(reply.token_ids) <= 6
    beyond = VllmPolicy(
        served._endpoint.base_url, SERVED_NAME, renderer=served.renderer, context_tokens=10_000, retry_policy=ONCE
    )
    with pytest.raises(PolicyError):
        await beyond.generate(replace(request_for(served), prefix_ids=[5] * 300))
    await beyond.close()


@pytest.mark.parametrize("call_format", [None, "hermes"])
async def test_the_chat_policy_speaks_to_the_same_server(url, call_format):
    policy = ChatApiPolicy(url + "/v1", SERVED_NAME, call_format=call_format, retry_policy=ONCE)
    reply = await policy.generate(Request(OPENING, TOOLS, sampling=Sampling(max_tokens=8, seed=1)))
    await policy.close()
    assert reply.message.role == "assistant"
    assert reply.prompt_tokens > 0
    assert 0 < reply.completion_tokens <= 8


async def test_new_weights_answer_after_an_update(served, checkpoints):
    """Also while requests run: each is answered wholly by the weights whose version it carries."""
    old, new = _local(checkpoints[0]), _local(checkpoints[1])
    request = request_for(served)
    await served.generate(request)  # the first one also asks how much context there is
    under_way = [
        asyncio.create_task(served.generate(request_for(served, seed=seed, max_tokens=100))) for seed in range(8)
    ]
    await asyncio.sleep(0.05)
    await served.update_weights(str(checkpoints[1]), version=3)
    before, after = await asyncio.gather(*under_way), await served.generate(request)
    assert after.policy_version == 3
    assert after.logprobs == pytest.approx(await new.score(request.prefix_ids, after.token_ids), abs=1e-4)
    for reply in before:
        assert reply.policy_version == 0
        assert reply.logprobs == pytest.approx(await old.score(request.prefix_ids, reply.token_ids), abs=1e-4)
    await served.update_weights(str(checkpoints[0]))
    repeated = await served.generate(request)
    assert repeated.policy_version == 4
    assert repeated.logprobs == pytest.approx(await old.score(request.prefix_ids, repeated.token_ids), abs=1e-4)
    await old.close()
    await new.close()


async def test_an_adapter_answers_after_an_update_and_nobody_waits_for_it(served, checkpoints, tmp_path):
    """Requests under way end under what they began with; a former adapter is taken off the server."""
    base, request = _local(checkpoints[0]), request_for(served)
    await served.generate(request)
    under_way = [asyncio.create_task(served.generate(request_for(served, seed=s, max_tokens=100))) for s in range(8)]
    await asyncio.sleep(0.05)
    adapted = []
    for seed in (1, 2):
        model = new_adapter(_local(checkpoints[0]).model, LoraOptions(rank=4, alpha=8), base="base", seed=seed)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
        save_model(model, served.renderer.tokenizer, tmp_path / str(seed))
        await served.update_adapter(str(tmp_path / str(seed)))
        adapted.append(TransformersPolicy(merged(model), served.renderer))
        reply = await served.generate(request)
        assert reply.policy_version == seed
        assert reply.logprobs == pytest.approx(await adapted[-1].score(request.prefix_ids, reply.token_ids), abs=1e-4)
    for reply in await asyncio.gather(*under_way):
        assert reply.policy_version == 0
        assert reply.logprobs == pytest.approx(await base.score(request.prefix_ids, reply.token_ids), abs=1e-4)
    models = await served._endpoint.get("/v1/models")
    assert len([model for model in models["data"] if model.get("parent")]) == 1
    await served.update_weights(str(checkpoints[0]))
    reply = await served.generate(request)
    assert reply.logprobs == pytest.approx(await base.score(request.prefix_ids, reply.token_ids), abs=1e-4)
    for policy in (base, *adapted):
        await policy.close()


async def test_a_server_that_applies_no_masks_is_refused_before_anything_is_sampled_under_them(served):
    hooked = VllmPolicy(
        served._endpoint.base_url, SERVED_NAME, renderer=served.renderer, retry_policy=ONCE, logit_hook="known_tools"
    )
    with pytest.raises(PolicyError, match=r"does not apply the masks.*--logits-processors agentgym"):
        await hooked.generate(request_for(hooked))
    await hooked.close()


async def test_throughput_is_printed(served):
    """No assertion on time: run with -s to see it."""
    requests = [request_for(served, seed=seed, max_tokens=100) for seed in range(32)]
    for count in (1, 8, 32):
        began = time.perf_counter()
        replies = await asyncio.gather(*map(served.generate, requests[:count]))
        taken = time.perf_counter() - began
        tokens = sum(len(reply.token_ids) for reply in replies)
        print(f"vllm: {count} at once: {tokens} tokens in {taken:.2f} s = {tokens / taken:.0f} tokens/s")
        assert tokens
