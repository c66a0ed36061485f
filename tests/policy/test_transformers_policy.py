"""A local model as a policy: what it says it sampled is what it sampled, whoever else was in the batch."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import ContextFull, PolicyError, UnknownNameError
from agentgym.formats.tags import Tags
from agentgym.messages import Message
from agentgym.policy import Request, Sampling, TemplateRenderer, TransformersPolicy, decode_request, decoding, scoring
from agentgym.policy.local import load as load
from agentgym.training.recipe.train_section import TrainSection


@pytest.fixture
async def policy(model, renderer):
    created = TransformersPolicy(model, renderer)
    yield created
    await created.close()


@pytest.fixture(scope="module")
def requests(renderer, tools):
    """Prompts of different lengths, some equal, as the groups of a step are."""
    created = []
    for n in range(12):
        question = f"How many orders in {2000 + n // 2}?" + " total" * (n // 2)
        opening = [Message("system", "Use SQL."), Message("user", question)]
        prompt = renderer.prompt(opening, tools)
        sampling = Sampling(temperature=(1.0, 0.7)[n % 2], max_tokens=6 + n, seed=n)
        created.append(Request(opening, tools, prompt, sampling, f"episode {n:02}"))
    return created


def teacher_forced(model, prefix, tokens, temperature=1.0):
    """Log-probabilities of the tokens by one plain forward pass, without cache, padding or batch."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prefix, *tokens]])).logits[0, len(prefix) - 1 : -1].double()
    return torch.log_softmax(logits / temperature, -1)[range(len(tokens)), list(tokens)].tolist()


def following(renderer, request, reply, text="7\n8"):
    """The request of the next turn."""
    ended = reply.finish_reason == "stop"
    prefix = [*request.prefix_ids, *reply.token_ids, *renderer.observation([Message("tool", text)], ended=ended)]
    return replace(request, prefix_ids=prefix, sampling=replace(request.sampling, seed=request.sampling.seed + 1000))


async def together(policy, requests):
    return await asyncio.gather(*map(policy.generate, requests))


async def test_logprobs_are_those_of_a_teacher_forced_forward_pass(policy, model, requests):
    for request, reply in zip(requests, await together(policy, requests), strict=True):
        expected = teacher_forced(model, request.prefix_ids, reply.token_ids, request.sampling.temperature)
        assert reply.logprobs == pytest.approx(expected, abs=1e-4)
        assert reply.completion_tokens == len(reply.token_ids) == len(reply.logprobs)
        assert reply.prompt_tokens == len(request.prefix_ids)


async def test_a_batch_says_what_each_request_says_alone(policy, requests):
    batch = await together(policy, requests)
    for request, reply in zip(requests, batch, strict=True):
        alone = await policy.generate(request)
        assert alone.token_ids == reply.token_ids
        assert alone.logprobs == pytest.approx(reply.logprobs, abs=1e-4)


async def test_equal_prompts_with_different_seeds_differ_and_with_equal_seeds_agree(policy, requests):
    group = [replace(requests[0], sampling=Sampling(max_tokens=12, seed=seed)) for seed in (1, 2, 1)]
    first, other, repeated = await together(policy, group)
    assert first.token_ids == repeated.token_ids
    assert first.token_ids != other.token_ids


async def test_without_a_seed_two_samples_differ(policy, requests):
    request = replace(requests[0], sampling=Sampling(max_tokens=16))
    first, other = await together(policy, [request, request])
    assert first.token_ids != other.token_ids


@pytest.mark.parametrize("reuse_mib", [0, 64])
async def test_later_turns_have_the_right_logprobs_with_and_without_reuse(model, renderer, requests, reuse_mib):
    policy = TransformersPolicy(model, renderer, reuse_mib=reuse_mib)
    current_requests = list(requests)
    for request in current_requests:
        policy.episode_started(request.episode)
    for turn in range(3):
        replies = await together(policy, current_requests)
        for request, reply in zip(current_requests, replies, strict=True):
            expected = teacher_forced(model, request.prefix_ids, reply.token_ids, request.sampling.temperature)
            assert reply.logprobs == pytest.approx(expected, abs=1e-4)
        assert len(policy._pasts) == (len(current_requests) if reuse_mib else 0)
        current_requests = [
            following(renderer, *pair, "7" * (1 + turn)) for pair in zip(current_requests, replies, strict=True)
        ]
    for request in current_requests:
        policy.episode_ended(request.episode)
    assert policy._pasts == {}
    await policy.close()


async def test_new_weights_are_used_at_once_also_in_a_later_turn(renderer, tokenizer, requests):
    """What earlier turns computed belongs to the old weights."""
    from agentgym.policy import make_model

    model = make_model(tokenizer, hidden=64, layers=2)
    policy = TransformersPolicy(model, renderer)
    policy.episode_started(requests[0].episode)
    request = requests[0]
    reply = await policy.generate(request)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.tensor([request.prefix_ids])).logits.square().mean().backward()
    optimizer.step()
    request = following(renderer, request, reply)
    reply = await policy.generate(request)
    expected = teacher_forced(model, request.prefix_ids, reply.token_ids, request.sampling.temperature)
    assert reply.logprobs == pytest.approx(expected, abs=1e-4)
    await policy.close()


async def test_what_old_weights_computed_is_not_used_after_another_episode_has_used_the_new_ones(
    renderer, tokenizer, requests
):
    from agentgym.policy import make_model

    model = make_model(tokenizer, hidden=64, layers=2)
    policy, (first, other, *_) = TransformersPolicy(model, renderer), requests
    policy.episode_started(first.episode)
    reply = await policy.generate(first)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    await policy.generate(other)
    later = following(renderer, first, reply)
    reply = await policy.generate(later)
    expected = teacher_forced(model, later.prefix_ids, reply.token_ids, later.sampling.temperature)
    assert reply.logprobs == pytest.approx(expected, abs=1e-4)
    await policy.close()


async def test_a_rewritten_conversation_is_not_continued_from_the_old_one(policy, model, renderer, requests):
    request = requests[0]
    policy.episode_started(request.episode)
    await policy.generate(request)
    other = replace(request, prefix_ids=[*request.prefix_ids[:-3], 5, 6, 7, *request.prefix_ids, 9, 8, 7])
    reply = await policy.generate(other)
    expected = teacher_forced(model, other.prefix_ids, reply.token_ids, other.sampling.temperature)
    assert reply.logprobs == pytest.approx(expected, abs=1e-4)


async def test_temperature_zero_takes_the_likeliest_token(policy, model, requests):
    greedy = [replace(request, sampling=Sampling(temperature=0.0, max_tokens=8)) for request in requests]
    for request, reply in zip(greedy, await together(policy, greedy), strict=True):
        ids = torch.tensor([[*request.prefix_ids, *reply.token_ids]])
        with torch.no_grad():
            best = model(ids).logits[0, len(request.prefix_ids) - 1 : -1].argmax(-1)
        assert reply.token_ids == best.tolist()
        assert reply.logprobs == pytest.approx(teacher_forced(model, request.prefix_ids, reply.token_ids), abs=1e-4)


async def test_lockstep_runs_agree_in_every_bit(model, renderer, requests):
    async def run(order):
        policy = TransformersPolicy(model, renderer, lockstep=True, max_batch=5)
        for index in order:
            policy.episode_started(requests[index].episode)

        async def play(index):
            request, replies_so_far = requests[index], []
            for _ in range(3):
                await asyncio.sleep(0.001 * (index * 7 % 5))
                reply = await policy.generate(request)
                replies_so_far.append((reply.token_ids, reply.logprobs))
                request = following(renderer, request, reply)
            policy.episode_ended(requests[index].episode)
            return index, replies_so_far

        replies_by_index = dict(await asyncio.gather(*map(play, order)))
        await policy.close()
        return replies_by_index

    assert await run(range(12)) == await run([5, 3, 11, 0, 7, 1, 9, 2, 10, 4, 8, 6])


async def test_any_end_token_stops_and_is_part_of_the_reply(model, renderer, requests):
    free = TransformersPolicy(model, renderer)
    request = replace(requests[0], sampling=Sampling(max_tokens=20, seed=3))
    full = await free.generate(request)
    ends = TransformersPolicy(model, renderer, eos_token_ids=[full.token_ids[4], 1])
    cut = await ends.generate(request)
    stop = full.token_ids.index(full.token_ids[4]) + 1
    assert cut.token_ids == full.token_ids[:stop]
    assert cut.finish_reason == "stop"
    await free.close()
    await ends.close()


async def test_a_call_format_with_stop_texts_ends_the_turn_there(tokenizer, model, requests):
    full = TransformersPolicy(model, TemplateRenderer(tokenizer, Tags()))
    request = replace(requests[0], sampling=Sampling(max_tokens=20, seed=3))
    full_reply = await full.generate(request)

    stopping = Tags()
    stopping.stop = (tokenizer.decode(full_reply.token_ids[3:6]),)
    short = TransformersPolicy(model, TemplateRenderer(tokenizer, stopping))
    reply = await short.generate(request)
    assert reply.finish_reason == "stop"
    assert len(reply.token_ids) <= 6
    assert reply.token_ids == full_reply.token_ids[: len(reply.token_ids)]
    await full.close()
    await short.close()


async def test_max_tokens_and_the_context_cut_with_reason_length(model, renderer, requests):
    request = requests[0]
    room = len(request.prefix_ids) + 4
    policy = TransformersPolicy(model, renderer, context_tokens=room, eos_token_ids=[1])
    reply = await policy.generate(replace(request, sampling=Sampling(max_tokens=50, seed=0)))
    assert len(reply.token_ids) == 4
    assert reply.finish_reason == "length"
    with pytest.raises(ContextFull, match=f"context of {room}"):
        await policy.generate(replace(request, prefix_ids=[5] * room))
    with pytest.raises(ContextFull):
        await policy.score([5] * room, [6, 7])
    await policy.close()


async def test_without_prefix_ids_the_messages_are_rendered(policy, requests):
    given = await policy.generate(requests[0])
    rendered = await policy.generate(replace(requests[0], prefix_ids=None))
    assert rendered.token_ids == given.token_ids


async def test_entropies_are_of_the_likeliest_tokens_and_go_along_with_scores(policy, model, requests):
    pairs = [(request.prefix_ids, request.prefix_ids[: 1 + index]) for index, request in enumerate(requests)]
    requests_of = [policy.entropies(*pair, top) for pair in pairs for top in (3, 10)]
    *entropies, scores = await asyncio.gather(*requests_of, policy.score(*pairs[4]))
    for index, (prefix, rest) in enumerate(pairs):
        with torch.no_grad():
            logits = model(torch.tensor([[*prefix, *rest]])).logits[0, len(prefix) - 1 : -1].double()
        likeliest = logits.softmax(-1).sort(descending=True).values
        for top, values in zip((3, 10), entropies[2 * index : 2 * index + 2], strict=True):
            expected = -(likeliest[:, :top] * likeliest[:, :top].log()).sum(-1)
            assert values == pytest.approx(expected.tolist(), abs=1e-4)
    assert scores == pytest.approx(teacher_forced(model, *pairs[4]), abs=1e-4)


async def test_score_is_teacher_forced_and_batched(policy, model, requests):
    pairs = [(request.prefix_ids, request.prefix_ids[: 1 + index]) for index, request in enumerate(requests)]
    scores = await asyncio.gather(*(policy.score(*pair) for pair in pairs))
    for (prefix, rest), score in zip(pairs, scores, strict=True):
        assert score == pytest.approx(teacher_forced(model, prefix, rest), abs=1e-4)
    assert await policy.score([1], []) == []
    with pytest.raises(PolicyError, match="at least one token"):
        await policy.score([], [1])


async def test_a_bound_on_a_batchs_tokens_changes_no_token(model, renderer, requests, monkeypatch):
    """A row waits where the keys and values of the running ones would hold more with it; scores likewise."""
    widths = []
    step = decoding._Batch.step
    monkeypatch.setattr(decoding._Batch, "step", lambda self: widths.append(len(self.rows)) or step(self))
    free, bound = TransformersPolicy(model, renderer), TransformersPolicy(model, renderer, max_batch_tokens=200)
    expected = await together(free, requests)
    assert max(widths) == len(requests)
    widths.clear()
    replies = await together(bound, requests)
    assert 1 < max(widths) < len(requests) / 2
    assert [reply.token_ids for reply in replies] == [reply.token_ids for reply in expected]
    pairs = [(request.prefix_ids, request.prefix_ids[: 1 + index]) for index, request in enumerate(requests)]
    at_once = scoring.score(model, 0, pairs)
    monkeypatch.setattr(scoring, "SCORED_AT_ONCE", 1)
    for scores, others in zip(at_once, scoring.score(model, 0, pairs), strict=True):
        assert scores == pytest.approx(others, abs=1e-4)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20)), min_size=1), st.integers(1, 300))
def test_rows_fit_together_within_the_budget_and_one_alone_always(sizes, budget):
    rows = [decode_request.DecodeRequest([0] * prefix, Sampling(), limit) for prefix, limit in sizes]
    running: list[decode_request.DecodeRequest] = []
    for row in rows:
        if decode_request.fits(row, running, budget):
            running.append(row)
    assert rows[0] in running
    assert len(running) == 1 or max(row.longest for row in running) * len(running) <= budget


async def test_training_mode_is_restored_and_never_used(renderer, requests):
    from agentgym.policy import make_model

    model = make_model(renderer.tokenizer, hidden=64, layers=1)
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.9
    model.train()
    policy = TransformersPolicy(model, renderer)
    reply = await policy.generate(requests[0])
    assert model.training
    model.eval()
    expected = teacher_forced(model, requests[0].prefix_ids, reply.token_ids, requests[0].sampling.temperature)
    assert reply.logprobs == pytest.approx(expected, abs=1e-4)
    await policy.close()


async def test_nan_weights_are_reported_to_everyone_who_asked(renderer, requests):
    from agentgym.policy import make_model

    model = make_model(renderer.tokenizer, hidden=64, layers=1)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    policy = TransformersPolicy(model, renderer)
    results = await asyncio.gather(*map(policy.generate, requests[:3]), return_exceptions=True)
    assert all(isinstance(result, PolicyError) and "NaN" in str(result) for result in results)
    await policy.close()


async def test_a_checkpoint_on_disk_is_the_same_policy(tmp_path, tokenizer, model, policy, requests):
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    loaded = load(str(tmp_path), max_batch=8)
    assert (await loaded.generate(requests[1])).token_ids == (await policy.generate(requests[1])).token_ids
    await loaded.close()


def test_a_missing_checkpoint_or_call_format_is_named(tmp_path, tokenizer, model):
    with pytest.raises(PolicyError, match="No model can be loaded"):
        load(str(tmp_path / "nothing"))
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    with pytest.raises(UnknownNameError, match="hermes"):
        load(str(tmp_path), call_format="hermse")


async def test_a_model_whose_layers_forget_is_sampled_without_sharing(tokenizer, renderer, requests):
    """Sliding-window attention cannot be cut and joined; the plain path must give the same guarantees."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        use_sliding_window=True,
        sliding_window=16,
        max_window_layers=1,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config).eval()
    policy = TransformersPolicy(model, renderer)
    policy.episode_started(requests[0].episode)
    for request, reply in zip(requests, await together(policy, requests), strict=True):
        expected = teacher_forced(model, request.prefix_ids, reply.token_ids, request.sampling.temperature)
        assert reply.logprobs == pytest.approx(expected, abs=1e-4)
    assert policy._pasts == {}
    await policy.close()


async def test_autocast_is_the_arithmetic_of_a_trainer_with_mixed_precision(model, renderer):
    """On a GPU training computes in bfloat16; a sampler in float32 would be another model."""
    ids = list(range(20, 40))
    created = TransformersPolicy(model, renderer, autocast=torch.bfloat16)
    scores = await created.score(ids[:12], ids[12:])
    await created.close()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(input_ids=torch.tensor([ids])).logits
    expected = torch.log_softmax(logits[0, 11:-1].float(), -1).gather(1, torch.tensor(ids[12:])[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(scores), expected, atol=1e-6, rtol=0)


async def test_turns_are_sampled_under_autocast_as_the_trainer_computes_them(model, renderer):
    """The keys of this model are normed in float32, and its values are in bfloat16."""
    policy = TransformersPolicy(model, renderer, autocast=torch.bfloat16)
    prompt = list(range(20, 40))
    request = Request(messages=(), prefix_ids=prompt, sampling=Sampling(seed=1, max_tokens=8))
    replies = await asyncio.gather(*(policy.generate(request) for _ in range(2)))
    await policy.close()
    tokens = replies[0].token_ids
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(input_ids=torch.tensor([prompt + tokens])).logits
    expected = torch.log_softmax(logits[0, 19:-1].float(), -1).gather(1, torch.tensor(tokens)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(replies[0].logprobs).float(), expected, atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("trl", "device", "dtype"),
    [({}, "cpu", None), ({}, "cuda", "bfloat16"), ({"bf16": False}, "cuda", None), ({"fp16": True}, "cuda", "float16")],
)
def test_a_recipe_samples_in_the_arithmetic_that_it_trains_in(trl, device, dtype):
    assert TrainSection(trl=trl).autocast(device) == dtype
