"""The vLLM client against a local server that speaks its dialect; tests/vllm_server has the same for a real one."""

from __future__ import annotations

import asyncio
import json
import math

import pytest
import torch
from model_server import Answer, serving

from agentgym.errors import ContextFull, PolicyError
from agentgym.messages import Call, Message
from agentgym.policy import Request, RetryPolicy, Sampling, VllmPolicy
from agentgym.policy.checkpoint import save_untied
from agentgym.policy.logit_hooks.contract import make_hook
from agentgym.policy.logit_hooks.served_masks import GRAMMAR, OTHER_TOKENS, PROBE, SAME_TOKENS

QUICK = RetryPolicy(attempt_s=5, total_s=20, attempts=2, backoff_s=0.001)


def make_policy(server, renderer, context_tokens: int | None = 100):
    return VllmPolicy(server.url, "tiny", renderer=renderer, context_tokens=context_tokens, retry_policy=QUICK)


def choice(**fields):
    return {"choices": [fields]}


async def test_tokens_go_in_and_out_untouched(renderer):
    token_ids = renderer.encode(Message("assistant", "", (Call("query", {"sql": "SELECT 1"}),)))
    logprobs = [-0.5 * index for index in range(len(token_ids))]
    with serving(choice(token_ids=token_ids, logprobs={"token_logprobs": logprobs}, finish_reason="stop")) as server:
        policy = make_policy(server, renderer)
        policy.version = 4
        sampling = Sampling(temperature=0.7, top_p=0.9, max_tokens=512, seed=11)
        reply = await policy.generate(Request([], prefix_ids=[5, 6, 7], sampling=sampling))
        await policy.close()
    path, body, _ = server.requests[0]
    assert path == "/v1/completions"
    assert body["prompt"] == [5, 6, 7]
    assert body["max_tokens"] == 97  # what the context leaves
    assert body["stop_token_ids"] == [renderer.end_of_turn_id]
    assert (body["temperature"], body["top_p"], body["seed"], body["return_token_ids"]) == (0.7, 0.9, 11, True)
    assert (reply.token_ids, reply.logprobs, reply.policy_version) == (token_ids, logprobs, 4)
    assert reply.message.calls == (Call("query", {"sql": "SELECT 1"}),)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"token_ids": [1, 2]},
        {"token_ids": [1, 2], "logprobs": {"token_logprobs": [-1.0]}},
        {"token_ids": [1, 2], "logprobs": {"token_logprobs": [-1.0, None]}},
        {"token_ids": [1], "logprobs": {"token_logprobs": ["-Infinity"]}},
        {"token_ids": None, "logprobs": None},
        {"token_ids": [], "logprobs": {"token_logprobs": []}},
    ],
)
async def test_a_server_that_gives_no_exact_tokens_is_refused(renderer, fields):
    with serving(choice(**fields)) as server:
        policy = make_policy(server, renderer)
        with pytest.raises(PolicyError, match="return_token_ids"):
            await policy.generate(Request([], prefix_ids=[5]))
        await policy.close()


def hooked_policy(server, renderer, hook="known_tools"):
    return VllmPolicy(server.url, "tiny", renderer=renderer, context_tokens=100, retry_policy=QUICK, logit_hook=hook)


def sampled_tokens(*token_ids):
    return choice(token_ids=list(token_ids), logprobs={"token_logprobs": [0.0] * len(token_ids)}, finish_reason="stop")


async def test_a_reply_under_a_logit_hook_carries_the_masks_that_the_server_was_asked_for(renderer):
    request = Request([], [{"function": {"name": "query"}}], prefix_ids=[5, 6])
    token_ids = renderer.encode(Message("assistant", "", (Call("query", {"sql": "SELECT 1"}),)))
    with serving(sampled_tokens(SAME_TOKENS), sampled_tokens(*token_ids)) as server:
        policy = hooked_policy(server, renderer)
        first, second = await policy.generate(request), await policy.generate(request)
        await policy.close()
    probe, body, repeated = server.bodies
    grammar = json.loads(body["vllm_xargs"][GRAMMAR])
    assert list(probe["vllm_xargs"]) == [PROBE]
    assert grammar["settings"] == {"names": ["query"], "may_answer": True, "max_calls": None, "begun_thought": ""}
    assert body["stop_token_ids"] == grammar["end_ids"]
    assert renderer.end_of_turn_id in grammar["end_ids"]
    assert body["ignore_eos"]
    assert repeated == body
    hook = make_hook("known_tools", renderer, grammar["end_ids"])(request)
    allowed = [hook(token_ids[:at]) for at in range(len(token_ids))]
    recorded = [None] * len(token_ids)
    for begin, end, mask in first.masks:
        recorded[begin:end] = [mask] * (end - begin)
    assert recorded == allowed
    assert any(recorded)
    assert second.masks == first.masks


async def test_a_token_that_the_hook_refuses_proves_that_the_server_did_not_mask(renderer):
    request = Request([], [{"function": {"name": "query"}}], prefix_ids=[5, 6])
    other = renderer.encode(Message("assistant", "", (Call("drop", {}),)))
    with serving(sampled_tokens(SAME_TOKENS), sampled_tokens(*other)) as server:
        policy = hooked_policy(server, renderer)
        with pytest.raises(PolicyError, match=r"sampled the token \d+, which the logit hook forbids"):
            await policy.generate(request)
        await policy.close()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (sampled_tokens(OTHER_TOKENS), "logit hook's masks would apply to the wrong tokens"),
        (sampled_tokens(9), "does not apply the masks"),
        (choice(token_ids=[1], logprobs={"token_logprobs": [-0.5]}), "does not apply the masks"),
    ],
)
async def test_a_server_is_probed_before_anything_is_sampled_under_a_hook(renderer, answer, message):
    with serving(answer) as server:
        policy = hooked_policy(server, renderer)
        with pytest.raises(PolicyError, match=message):
            await policy.generate(Request([], prefix_ids=[5]))
        await policy.close()
    assert len(server.bodies) == 1


@pytest.mark.parametrize("hook", ["nlpo", "value_guided"])
def test_a_hook_that_only_this_process_can_ask_is_refused(renderer, hook):
    with serving({}) as server, pytest.raises(PolicyError, match=f"{hook}' cannot be used with vLLM.*sample with"):
        hooked_policy(server, renderer, hook)


async def test_the_context_is_asked_for_once_and_kept_to(renderer):
    models = {"data": [{"id": "tiny", "max_model_len": 8}]}
    answer = choice(token_ids=[3], logprobs={"token_logprobs": [-1.0]})
    with serving(models, answer) as server:
        policy = make_policy(server, renderer, context_tokens=None)
        await policy.generate(Request([], prefix_ids=[5, 6]))
        await policy.generate(Request([], prefix_ids=[5, 6]))
        with pytest.raises(ContextFull, match="has 8 tokens"):
            await policy.generate(Request([], prefix_ids=[5] * 8))
        await policy.close()
    assert [path for path, _, _ in server.requests] == ["/v1/models", "/v1/completions", "/v1/completions"]
    assert [body["max_tokens"] for body in server.bodies[1:]] == [6, 6]


async def test_a_wrong_model_name_is_told_with_the_right_ones(renderer):
    with serving({"data": [{"id": "other", "max_model_len": 8}]}) as server:
        policy = make_policy(server, renderer, context_tokens=None)
        with pytest.raises(PolicyError, match=r"'tiny'; it serves \['other'\]"):
            await policy.generate(Request([], prefix_ids=[5]))
        await policy.close()


async def test_score_reads_the_log_probability_of_each_given_token(renderer):
    rows = [None, {"6": {"logprob": -0.1}}, {"7": {"logprob": -0.2}, "1": {"logprob": -0.01}}, {"8": {"logprob": -0.3}}]
    with serving(choice(prompt_logprobs=rows)) as server:
        policy = make_policy(server, renderer)
        assert await policy.score([5, 6], [7, 8]) == [-0.2, -0.3]
        assert await policy.score([5], []) == []
        with pytest.raises(PolicyError, match="prompt_logprobs"):
            await policy.score([5, 6], [7, 9])
        with pytest.raises(PolicyError, match="at least one token"):
            await policy.score([], [7])
        await policy.close()


async def test_entropies_are_of_the_likeliest_of_the_tokens_that_the_server_tells(renderer):
    half, quarter, rare = math.log(0.5), math.log(0.25), math.log(0.01)
    table = {"1": {"logprob": quarter}, "2": {"logprob": half}, "7": {"logprob": rare}}
    with serving(choice(prompt_logprobs=[None, None, table])) as server:
        policy = make_policy(server, renderer)
        assert await policy.entropies([5, 6], [7], 2) == pytest.approx([-0.5 * half - 0.25 * quarter])
        await policy.close()
    assert server.bodies[-1]["prompt_logprobs"] == 2


async def test_weights_are_replaced_in_the_only_safe_order(renderer):
    with serving(Answer(b"")) as server:
        policy = make_policy(server, renderer)
        await policy.update_weights("/checkpoints/7")
        await policy.update_weights("/checkpoints/9", version=9)
        await policy.close()
    paths = [path for path, _, _ in server.requests]
    assert paths == ["/pause?mode=wait", "/collective_rpc", "/reset_prefix_cache", "/resume"] * 2
    assert server.bodies[1] == {"method": "reload_weights", "kwargs": {"weights_path": "/checkpoints/7"}}
    assert policy.version == 9


async def test_a_server_that_cannot_load_the_weights_is_resumed_with_the_old_ones(renderer):
    with serving(Answer(b""), Answer("no such folder", 400), Answer(b"")) as server:
        policy = make_policy(server, renderer)
        with pytest.raises(PolicyError, match="no such folder"):
            await policy.update_weights("/nowhere")
        await policy.close()
    assert [path for path, _, _ in server.requests] == ["/pause?mode=wait", "/collective_rpc", "/resume"]
    assert policy.version == 0


async def test_an_update_waits_for_running_requests_and_later_ones_wait_for_it(renderer):
    """Every reply names the weights that sampled it, so nothing may be on its way while they change."""
    reply = choice(token_ids=[3], logprobs={"token_logprobs": [-1.0]})
    with serving(Answer(reply, after_s=0.2), Answer(b"", after_s=0.1), *[Answer(b"")] * 3, reply) as server:
        policy = make_policy(server, renderer)
        early = asyncio.create_task(policy.generate(Request([], prefix_ids=[5])))
        await asyncio.sleep(0.05)
        update = asyncio.create_task(policy.update_weights("/new"))
        await asyncio.sleep(0)
        late = asyncio.create_task(policy.generate(Request([], prefix_ids=[5])))
        await asyncio.sleep(0)
        with pytest.raises(PolicyError, match="still running"):
            await policy.update_weights("/newer")
        assert (await early).policy_version == 0
        await update
        assert (await late).policy_version == 1
        await policy.close()
    paths = [path.split("?")[0] for path, _, _ in server.requests]
    assert paths == [
        "/v1/completions",
        "/pause",
        "/collective_rpc",
        "/reset_prefix_cache",
        "/resume",
        "/v1/completions",
    ]


async def test_an_adapter_that_nobody_needs_any_more_is_taken_off_the_server(renderer):
    """Requests under way keep the adapter that they began with."""
    reply, done = choice(token_ids=[3], logprobs={"token_logprobs": [-1.0]}), Answer(b"Success: plain text")
    with serving(done, Answer(reply, after_s=0.3), *[done] * 4, reply, Answer(b"")) as server:
        policy = make_policy(server, renderer)
        await policy.update_adapter("/adapters/1")
        early = asyncio.create_task(policy.generate(Request([], prefix_ids=[5])))
        await asyncio.sleep(0.05)
        await policy.update_adapter("/adapters/2")  # the first is still in use
        assert (await early).policy_version == 1
        await policy.update_adapter("/adapters/3")
        assert (await policy.generate(Request([], prefix_ids=[5]))).policy_version == 3
        await policy.update_weights("/merged")
        assert policy.version == 4
        await policy.close()
    loaded = [body for path, body, _ in server.requests if path == "/v1/load_lora_adapter"]
    removed = [body["lora_name"] for path, body, _ in server.requests if path == "/v1/unload_lora_adapter"]
    assert [body["lora_path"] for body in loaded] == ["/adapters/1", "/adapters/2", "/adapters/3"]
    names = [body["lora_name"] for body in loaded]
    assert len(set(names)) == 3
    assert [body["model"] for path, body, _ in server.requests if path == "/v1/completions"] == [names[0], names[2]]
    assert removed == names[:2]
    assert [path for path, _, _ in server.requests].index("/v1/unload_lora_adapter") == 4


async def test_a_request_that_the_server_broke_off_is_no_reply(renderer):
    with serving(choice(token_ids=[3], logprobs={"token_logprobs": [-1.0]}, finish_reason="abort")) as server:
        policy = make_policy(server, renderer)
        with pytest.raises(PolicyError, match="The server aborted the request"):
            await policy.generate(Request([], prefix_ids=[5]))
        await policy.close()


async def test_an_untied_checkpoint_is_the_same_model(tmp_path, tokenizer, model):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    save_untied(model, tokenizer, tmp_path / "new")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "new", dtype=torch.float32)
    assert loaded.get_input_embeddings().weight is not loaded.get_output_embeddings().weight
    assert model.config.tie_word_embeddings
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert len(AutoTokenizer.from_pretrained(tmp_path / "new")) == len(tokenizer)


def test_a_tokenizer_that_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(PolicyError, match="No tokenizer can be loaded"):
        VllmPolicy("http://127.0.0.1", "m", tokenizer=str(tmp_path))
