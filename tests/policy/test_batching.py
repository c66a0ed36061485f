"""When a batch starts, who is in it, and what becomes of those who wait."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.errors import ContextFull, PolicyError
from agentgym.policy.batching import Batcher


@pytest.fixture
def worker():
    with ThreadPoolExecutor(1) as pool:
        yield pool


class Recorder:
    """Doubles numbers and remembers the batches; may be told to fail or to hold a batch until released."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.error: Exception | None = None
        self.begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, jobs):
        self.batches.append(list(jobs))
        self.begun.set()
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        return [2 * job for job in jobs]


async def test_requests_made_together_share_a_batch_and_each_gets_its_own_result(worker):
    run = Recorder()
    batcher = Batcher(run, worker)
    assert await asyncio.gather(*(batcher.submit(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert run.batches == [[0, 1, 2, 3, 4]]


async def test_a_batch_waits_for_every_live_episode(worker):
    run = Recorder()
    batcher = Batcher(run, worker, max_wait_s=60)
    batcher.started("a")
    batcher.started("b")
    first = asyncio.create_task(batcher.submit(1, "a"))
    await asyncio.sleep(0.05)
    assert run.batches == []
    assert await batcher.submit(2, "b") == 4
    assert await first == 2
    assert run.batches == [[1, 2]]


async def test_an_episode_that_ends_is_waited_for_no_longer(worker):
    run = Recorder()
    batcher = Batcher(run, worker, max_wait_s=60)
    batcher.started("a")
    batcher.started("b")
    first = asyncio.create_task(batcher.submit(1, "a"))
    await asyncio.sleep(0.01)
    batcher.ended("b")
    assert await asyncio.wait_for(first, 5) == 2


async def test_nobody_waits_longer_than_max_wait(worker):
    batcher = Batcher(Recorder(), worker, max_wait_s=0.01)
    batcher.started("slow tools")
    assert await asyncio.wait_for(batcher.submit(1, "a"), 5) == 2


async def test_a_full_batch_starts_at_once_and_the_rest_follows(worker):
    run = Recorder()
    batcher = Batcher(run, worker, max_batch=2, max_wait_s=0.01)
    batcher.started("slow tools")
    assert await asyncio.gather(*(batcher.submit(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert [len(batch) for batch in run.batches] == [2, 2, 1]


async def test_lockstep_ignores_the_order_of_arrival_and_the_clock(worker):
    """The same episodes make the same batches whoever's tools were faster."""
    results = []
    for order in ((0, 1, 2, 3, 4), (3, 1, 4, 0, 2)):
        run = Recorder()
        batcher = Batcher(run, worker, max_batch=2, max_wait_s=0.0, lockstep=True)
        for n in order:
            batcher.started(f"episode {n}")

        async def play(n, batcher=batcher):
            for turn in range(3):
                await asyncio.sleep(0.003 * ((n * 7 + turn) % 3))
                await batcher.submit(10 * turn + n, f"episode {n}")
            batcher.ended(f"episode {n}")

        await asyncio.gather(*map(play, order))
        results.append(run.batches)
    assert (
        results[0]
        == results[1]
        == [
            [0, 1],
            [2, 3],
            [4],
            [10, 11],
            [12, 13],
            [14],
            [20, 21],
            [22, 23],
            [24],
        ]
    )


async def test_in_lockstep_an_episode_that_follows_another_joins_the_round(worker):
    """When one ends, the next one starts a moment later; the round must not run without it."""
    run = Recorder()
    batcher = Batcher(run, worker, lockstep=True)
    batcher.started("a")
    batcher.started("b")
    waiting = asyncio.create_task(batcher.submit(1, "a"))
    await asyncio.sleep(0.01)
    batcher.ended("b")
    await asyncio.sleep(0)
    batcher.started("c")
    assert await batcher.submit(2, "c") == 4
    await waiting
    assert run.batches == [[1, 2]]


async def test_a_failure_reaches_everyone_in_the_batch_and_nobody_after(worker):
    run = Recorder()
    run.error = ZeroDivisionError("bad weights")
    batcher = Batcher(run, worker)
    results = await asyncio.gather(*(batcher.submit(n) for n in range(3)), return_exceptions=True)
    assert all(type(result) is PolicyError and "bad weights" in str(result) for result in results)
    assert isinstance(results[0].__cause__, ZeroDivisionError)
    assert results[0] is not results[1]
    run.error = None
    assert await batcher.submit(4) == 8


async def test_the_kind_of_a_policy_error_is_kept(worker):
    run = Recorder()
    run.error = ContextFull("no room")
    with pytest.raises(ContextFull, match="no room"):
        await Batcher(run, worker).submit(1)


async def test_a_request_cancelled_while_it_waits_is_not_run(worker):
    run = Recorder()
    batcher = Batcher(run, worker, max_wait_s=60)
    batcher.started("a")
    batcher.started("b")
    task = asyncio.create_task(batcher.submit(1, "a"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    batcher.ended("a")
    assert await batcher.submit(2, "b") == 4
    assert run.batches == [[2]]


async def test_a_request_cancelled_while_it_runs_leaves_the_others_alone(worker):
    run = Recorder()
    run.gate.clear()
    batcher = Batcher(run, worker)
    tasks = [asyncio.create_task(batcher.submit(n)) for n in range(2)]
    await asyncio.to_thread(run.begun.wait, 10)
    tasks[0].cancel()
    run.gate.set()
    assert await tasks[1] == 2


async def test_the_event_loop_is_free_while_a_batch_runs(worker):
    run = Recorder()
    run.gate.clear()
    task = asyncio.create_task(Batcher(run, worker).submit(1))
    await asyncio.to_thread(run.begun.wait, 10)
    await asyncio.sleep(0.01)  # would never return if the batch held the loop
    assert not task.done()
    run.gate.set()
    assert await task == 2


async def test_closing_fails_those_who_wait_and_those_who_come(worker):
    batcher = Batcher(Recorder(), worker, max_wait_s=60)
    batcher.started("a")
    batcher.started("b")
    task = asyncio.create_task(batcher.submit(1, "a"))
    await asyncio.sleep(0)
    batcher.close()
    with pytest.raises(PolicyError, match="closed before it answered"):
        await task
    with pytest.raises(PolicyError, match="is closed"):
        await batcher.submit(2)


def test_one_batcher_serves_one_event_loop_after_another(worker):
    """A trainer calls asyncio.run once a step; a step that died must not jam the next."""
    run = Recorder()
    batcher = Batcher(run, worker, max_wait_s=60)
    batcher.started("a")
    batcher.started("b")

    async def abandoned():
        asyncio.get_running_loop().call_later(0.01, asyncio.current_task().cancel)
        await batcher.submit(1, "a")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(abandoned())
    batcher.ended("a")
    assert asyncio.run(batcher.submit(2, "b")) == 4
    assert run.batches == [[2]]
