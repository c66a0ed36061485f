"""Prefixes are computed in parts of few tokens, which changes nothing, and a stop is looked for between two parts."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from row_sources import ListedRows, decode
from transformers import MistralConfig, MistralForCausalLM

from agentgym.errors import PolicyError
from agentgym.policy import Request, Sampling, TransformersPolicy, prefill
from agentgym.policy.batching import Batcher
from agentgym.policy.decode_request import DecodeRequest
from agentgym.policy.decoding import Decoder
from agentgym.policy.key_values import RowSlots
from agentgym.policy.scoring import score


@contextmanager
def forward_passes(model):
    """The numbers of tokens of the forward passes inside the block."""
    sizes: list[int] = []

    def note(_, __, inputs):
        sizes.append(inputs["input_ids"].numel())

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    yield sizes
    handle.remove()


def prefixes(seed: int, beginning: int) -> list[list[int]]:
    """Texts of 1 to 60 tokens, two of them equal, that begin with some tokens in common."""
    rng = np.random.default_rng(seed)
    common = rng.integers(3, 90, beginning).tolist()
    texts = [common + rng.integers(3, 90, int(rng.integers(1, 61))).tolist() for _ in range(7)]
    return [*texts, texts[2]]


def rows_of(seed: int, beginning: int) -> list[DecodeRequest]:
    return [
        DecodeRequest(prefix, Sampling(temperature=1.0, seed=number), 8, keep=True)
        for number, prefix in enumerate(prefixes(seed, beginning))
    ]


@pytest.mark.parametrize("beginning", [0, 50])
@pytest.mark.parametrize("at_once", [1, 7, 64, 512])
def test_the_parts_of_prefixes_change_no_token(model, monkeypatch, at_once, beginning):
    """Also in a second turn, which begins with the keys and values of the first."""
    expected_rows, parts = rows_of(0, beginning), rows_of(0, beginning)
    decode(Decoder(model, 0, (7,)), expected_rows)
    monkeypatch.setattr(prefill, "PART_TOKENS", at_once)
    with forward_passes(model) as sizes:
        decode(Decoder(model, 0, (7,)), parts)
    assert max(sizes) <= max(at_once, len(parts))  # each row's next token is computed together
    for row, expected in zip(parts, expected_rows, strict=True):
        assert row.tokens == expected.tokens
        assert row.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
        torch.testing.assert_close(row.left.block, expected.left.block, atol=1e-4, rtol=1e-3)
    second_turn = [DecodeRequest([*row.prefix, *row.tokens, 5, 6], row.sampling, 8, past=row.left) for row in parts[1:]]
    second_turn.append(DecodeRequest([9, 8, 7], Sampling(temperature=1.0, seed=3), 8))
    fresh = [DecodeRequest(row.prefix, row.sampling, 8) for row in second_turn]
    decode(Decoder(model, 0, (7,)), second_turn)
    monkeypatch.undo()
    decode(Decoder(model, 0, (7,)), fresh)
    assert [row.tokens for row in second_turn] == [row.tokens for row in fresh]


@pytest.mark.parametrize("at_once", [1, 40])
def test_the_parts_of_prefixes_change_no_token_where_layers_see_a_window(monkeypatch, at_once):
    """A window of 16 tokens: the rows stay in the model's own cache."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = MistralForCausalLM(MistralConfig(vocab_size=97, intermediate_size=64, sliding_window=16, **shape)).eval()
    expected_rows, parts = rows_of(1, 0), rows_of(1, 0)
    decode(Decoder(model, 0, (7,)), expected_rows)
    monkeypatch.setattr(prefill, "PART_TOKENS", at_once)
    with forward_passes(model) as sizes:
        decode(Decoder(model, 0, (7,)), parts)
    assert max(sizes) <= max(at_once, len(parts))
    for row, expected in zip(parts, expected_rows, strict=True):
        assert row.tokens == expected.tokens
        assert row.logprobs == pytest.approx(expected.logprobs, abs=1e-4)


def test_rows_that_join_in_parts_are_given_room_once(model, monkeypatch):
    moved: list[int] = []
    make_room = RowSlots._make_room

    def noted(self, like, filled):
        before = self.data
        make_room(self, like, filled)
        moved.append(self.data is not before)

    monkeypatch.setattr(RowSlots, "_make_room", noted)
    monkeypatch.setattr(prefill, "PART_TOKENS", 16)
    decode(Decoder(model, 0, (7,)), rows_of(0, 0))
    assert len(moved) > 4
    assert sum(moved) == 1


def test_a_score_in_parts_is_the_same(model, monkeypatch):
    pairs = [(prefix, prefix[:9]) for prefix in prefixes(2, 9)]
    expected_rows = list(score(model, 0, pairs))
    monkeypatch.setattr(prefill, "PART_TOKENS", 16)
    with forward_passes(model) as sizes:
        parts = list(score(model, 0, pairs))
    assert max(sizes) <= 16
    for row, expected in zip(parts, expected_rows, strict=True):
        assert row == pytest.approx(expected, abs=1e-5)


class Abandoned(ListedRows):
    """Rows whose requests are cancelled during a forward pass."""

    def __init__(self, rows, sizes: list[int], passes: int) -> None:
        super().__init__(rows)
        self._sizes, self._passes = sizes, passes

    def is_awaited(self, row):
        return len(self._sizes) < self._passes


def test_prefixes_whose_requests_were_cancelled_are_computed_no_further(model, monkeypatch):
    monkeypatch.setattr(prefill, "PART_TOKENS", 16)
    with forward_passes(model) as sizes, pytest.raises(PolicyError, match="no request waits"):
        Decoder(model, 0, (7,)).run(Abandoned(rows_of(0, 0), sizes, 3))
    assert len(sizes) == 3  # the last ends before its first layer


async def test_a_row_whose_request_was_cancelled_leaves_the_batch(model, renderer, tools):
    """The other row is sampled to its end, and says what it says alone."""
    policy = TransformersPolicy(model, renderer, eos_token_ids=[10**9])
    prompt = renderer.prompt([], tools)
    widths, is_running, loop = list[int](), asyncio.Event(), asyncio.get_running_loop()

    def note(_, __, inputs):
        widths.append(len(inputs["input_ids"]))
        if len(widths) == 20:
            loop.call_soon_threadsafe(is_running.set)

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    tasks = [
        asyncio.create_task(policy.generate(Request([], tools, prompt, Sampling(max_tokens=2000, seed=n), f"e{n}")))
        for n in range(2)
    ]
    await is_running.wait()
    tasks[0].cancel()
    reply = await tasks[1]
    assert len(reply.token_ids) == 2000
    assert widths.count(2) < 1000
    alone = await policy.generate(Request([], tools, prompt, Sampling(max_tokens=20, seed=1), "alone"))
    assert reply.token_ids[:20] == alone.token_ids
    handle.remove()
    await policy.close()


async def test_a_policy_says_how_many_tokens_its_running_requests_have(model, renderer, tools):
    policy, prompt = TransformersPolicy(model, renderer, eos_token_ids=[10**9]), renderer.prompt([], tools)
    counts: list[list[int]] = []
    handle = model.register_forward_pre_hook(lambda *_: counts.append(list(policy.running)))
    requests = [Request([], tools, prompt, Sampling(max_tokens=limit, seed=0), f"e{limit}") for limit in (3, 5)]
    await asyncio.gather(*map(policy.generate, requests))
    assert {tokens for each in counts for tokens in each} >= {0, 1, 2, 3, 4}
    assert list(policy.running) == []
    handle.remove()
    await policy.close()


async def test_a_worker_is_free_soon_after_all_requests_were_cancelled(model, renderer, tools):
    """So a process that is told to end does not wait for the end of a batch."""
    policy = TransformersPolicy(model, renderer, eos_token_ids=[10**9])
    handle = model.register_forward_pre_hook(lambda *_: time.sleep(0.05))
    prompt = renderer.prompt([], tools)
    tasks = [
        asyncio.create_task(policy.generate(Request([], tools, prompt, Sampling(max_tokens=2000, seed=n), f"e{n}")))
        for n in range(2)
    ]
    await asyncio.sleep(0.3)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    began = time.monotonic()
    await asyncio.get_running_loop().run_in_executor(policy._worker, lambda: None)
    assert time.monotonic() - began < 20  # of 100
    handle.remove()
    await policy.close()


async def test_results_of_a_batch_are_no_longer_computed_once_all_requests_were_cancelled():
    computed, has_begun, loop = list[int](), asyncio.Event(), asyncio.get_running_loop()

    def run(jobs):
        for job in jobs:
            time.sleep(0.05)
            computed.append(job)
            loop.call_soon_threadsafe(has_begun.set)
            yield job

    with ThreadPoolExecutor(1) as worker:
        batcher = Batcher(run, worker, max_wait_s=0.01)
        tasks = [asyncio.create_task(batcher.submit(number)) for number in range(60)]
        await has_begun.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(computed) < 30


# Beginnings that only some new conversations share


def saved_at_most(prefixes: list[list[int]], known: int) -> int:
    """The most tokens that any division into groups of neighbours saves, by trying all."""
    ordered = sorted(prefixes)
    best = 0
    for cuts in range(2 ** (len(ordered) - 1)):
        ends = [i + 1 for i in range(len(ordered) - 1) if cuts >> i & 1] + [len(ordered)]
        groups = [ordered[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        best = max(best, sum((len(g) - 1) * max(prefill.shared_length(g) - known, 0) for g in groups if len(g) > 1))
    return best


@pytest.mark.parametrize("seed", range(20))
def test_groups_that_begin_alike_save_the_most_tokens(seed):
    rng = np.random.default_rng(seed)
    texts = {tuple(rng.integers(0, 2, int(rng.integers(2, 9))).tolist()) for _ in range(8)}
    prefixes = [[7, 7, *text] for text in texts]
    groups = prefill.alike_groups(prefixes, 2)
    for members, length in groups:
        assert len({tuple(prefixes[member][:length]) for member in members}) == 1
        assert all(length < len(prefixes[member]) for member in members)
    members = [member for group in groups for member in group.members]
    assert len(set(members)) == len(members)
    assert sum((len(group.members) - 1) * (group.length - 2) for group in groups) == saved_at_most(prefixes, 2)


def test_what_the_prompts_of_a_database_share_is_computed_once(model):
    """Two databases, whose prompts begin with the same 20 tokens of tools and have 60 tokens of their own tables."""
    rng = np.random.default_rng(0)
    tools, *tables = (rng.integers(3, 90, count).tolist() for count in (20, 60, 60))
    prompts = [[*tools, *tables[number % 2], *rng.integers(3, 90, 5).tolist()] for number in range(8)]
    rows, alone = (
        [DecodeRequest(prompt, Sampling(temperature=1.0, seed=1), 1) for prompt in prompts] for _ in range(2)
    )
    with forward_passes(model) as sizes:
        decode(Decoder(model, 0, (7,)), rows)
    assert sum(sizes) <= 20 + 2 * 60 + 8 * 6
    for row, other in zip(rows, alone, strict=True):
        decode(Decoder(model, 0, (7,)), [other])
        assert row.tokens == other.tokens
        assert row.logprobs == pytest.approx(other.logprobs, abs=1e-4)
