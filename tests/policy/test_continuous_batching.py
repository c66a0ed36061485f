"""Rows join and leave a running batch at any token, and each says what it would say alone."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from row_sources import ListedRows, decode

from agentgym.errors import PolicyError
from agentgym.policy import Request, Sampling, TransformersPolicy, decoding
from agentgym.policy.batching import StreamBatcher
from agentgym.policy.decode_request import DecodeRequest
from agentgym.policy.decoding import Decoder
from agentgym.policy.key_values import RowSlots


class Arriving(ListedRows):
    """A source whose rows come after so many tokens each."""

    def __init__(self, rows: list[tuple[int, DecodeRequest]]) -> None:
        self.rows, self.steps, self.finished = rows, 0, []
        self.widest = 0

    def take(self, running):
        """The rows that have come by now; if none runs, the next ones."""
        self.steps = self.steps + 1 if running else min((step for step, _ in self.rows), default=self.steps)
        due = [row for step, row in self.rows if step <= self.steps]
        self.rows = [(step, row) for step, row in self.rows if step > self.steps]
        self.widest = max(self.widest, len(running) + len(due))
        return due

    def finish(self, row):
        self.finished.append(row)


def rows_of(seed: int, count: int = 12) -> list[tuple[int, DecodeRequest]]:
    """Prefixes of unequal length, some of which begin alike and some of which are equal, with unequal limits."""
    rng = np.random.default_rng(seed)
    common = rng.integers(3, 90, 20).tolist()
    rows: list[tuple[int, DecodeRequest]] = []
    for n in range(count):
        prefix = common + rng.integers(3, 90, int(rng.integers(1, 40))).tolist() if n % 3 else common[:9]
        sampling = Sampling(temperature=(1.0, 0.0, 0.7)[n % 3], top_p=(1.0, 0.8)[n % 2], seed=n)
        limit = int(rng.integers(1, 30))
        rows.append((int(rng.integers(0, 40)), DecodeRequest(prefix, sampling, limit, keep=True)))
    return rows


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("columns", [1, 128])
def test_a_row_that_joins_says_what_it_says_alone(model, monkeypatch, seed, columns):
    monkeypatch.setattr(RowSlots, "STEP", columns)
    source = Arriving(rows_of(seed))
    Decoder(model, 0, (7, 8)).run(source)
    assert source.widest > 2
    assert len(source.finished) == 12
    alone = {row.sampling.seed: row for _, row in rows_of(seed)}
    for row in source.finished:
        expected = alone[row.sampling.seed]
        decode(Decoder(model, 0, (7, 8)), [expected])
        assert row.tokens == expected.tokens
        assert row.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
        assert row.finish_reason == expected.finish_reason
        assert row.left.ids == expected.left.ids == [*row.prefix, *row.tokens][:-1]
        torch.testing.assert_close(row.left.block, expected.left.block, atol=1e-4, rtol=1e-3)


def test_a_row_goes_on_from_what_it_left(model):
    """A second turn, which joins others, begins with the keys and values of the first."""
    first = [row for _, row in rows_of(5)]
    decode(Decoder(model, 0, (7, 8)), first)
    turns = []
    for past in (False, True):
        rows = [
            (
                step,
                replace(row, prefix=[*row.prefix, *row.tokens, 5, 6], tokens=[], logprobs=[], finish_reason="length"),
            )
            for (step, _), row in zip(rows_of(6), first, strict=True)
        ]
        for _, row in rows:
            row.past, row.left = (row.left if past else None), None
        Decoder(model, 0, (7, 8)).run(Arriving(rows))
        turns.append([row for _, row in rows])
    for fresh, reused in zip(*turns, strict=True):
        assert fresh.tokens == reused.tokens
        assert fresh.logprobs == pytest.approx(reused.logprobs, abs=1e-4)


def request(renderer, tools, seed: int, tokens: int) -> Request:
    prompt = renderer.prompt([], tools)
    return Request([], tools, prompt, Sampling(max_tokens=tokens, seed=seed), f"e{seed}")


async def test_a_short_request_returns_while_a_long_one_runs_and_another_joins(model, renderer, tools, monkeypatch):
    widths: list[int] = []
    step = decoding._Batch.step
    monkeypatch.setattr(decoding._Batch, "step", lambda self: widths.append(len(self.rows)) or step(self))
    policy = TransformersPolicy(model, renderer, eos_token_ids=[10**9])
    long = asyncio.create_task(policy.generate(request(renderer, tools, 0, 400)))
    for seed in range(1, 6):
        reply = await policy.generate(request(renderer, tools, seed, 3))
        assert len(reply.token_ids) == 3
        assert not long.done()
    scores = await policy.score([5, 6], [7, 8])  # waits for the batch, which takes in no more rows meanwhile
    assert len(scores) == 2
    assert long.done()
    assert max(widths) == 2
    assert len(widths) < 420
    await policy.close()


async def test_scores_do_not_wait_for_ever_where_rows_keep_coming(model, renderer, tools):
    policy = TransformersPolicy(model, renderer, eos_token_ids=[10**9])
    ends = False

    async def keep_asking(seed: int) -> None:
        while not ends:
            await policy.generate(request(renderer, tools, seed, 5 + seed))

    asking = [asyncio.create_task(keep_asking(seed)) for seed in range(3)]
    await asyncio.sleep(0.2)
    assert len(await asyncio.wait_for(policy.score([5, 6], [7, 8]), 30)) == 2
    ends = True
    await asyncio.gather(*asking)
    await policy.close()


@pytest.fixture
def worker():
    with ThreadPoolExecutor(1) as pool:
        yield pool


class Worker:
    """Finishes jobs one by one, each when it is let go on; negative ones are errors."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.steps = threading.Semaphore(0)

    def __call__(self, jobs) -> None:
        while (job := jobs.next) is not None:
            jobs.take()
            assert self.steps.acquire(timeout=10)
            if job.number < 0:
                raise MemoryError("no room")
            self.done.append(job.number)
            jobs.finish(job)


class Job:
    def __init__(self, number: int) -> None:
        self.number = number


async def test_a_job_that_is_cancelled_before_it_is_taken_is_left_out(worker):
    run = Worker()
    batcher = StreamBatcher(run, worker)
    tasks = [asyncio.create_task(batcher.submit(Job(n))) for n in range(3)]
    await asyncio.sleep(0.1)
    tasks[1].cancel()
    await asyncio.sleep(0)
    run.steps.release(3)
    assert [job.number for job in await asyncio.gather(tasks[0], tasks[2])] == [0, 2]
    assert run.done == [0, 2]


async def test_in_lockstep_no_job_joins_a_round(worker):
    run = Worker()
    batcher = StreamBatcher(run, worker, lockstep=True)
    first = asyncio.create_task(batcher.submit(Job(1), "b"))
    await asyncio.sleep(0.1)
    later = [asyncio.create_task(batcher.submit(Job(n), e)) for n, e in ((3, "c"), (2, "a"))]
    await asyncio.sleep(0.1)
    run.steps.release(3)
    await asyncio.gather(first, *later)
    assert run.done == [1, 2, 3]


async def test_an_error_fails_those_that_are_not_finished(worker):
    run = Worker()
    batcher = StreamBatcher(run, worker)
    tasks = [asyncio.create_task(batcher.submit(Job(n))) for n in (1, -1, 2)]
    run.steps.release(3)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0].number == 1
    assert all(isinstance(result, PolicyError) and "max_batch_tokens" in str(result) for result in results[1:])
    run.steps.release()
    assert (await batcher.submit(Job(4))).number == 4
