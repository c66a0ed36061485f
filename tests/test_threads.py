"""Threads for blocking tools: results, errors, context, and hanging work that stops nobody else."""

from __future__ import annotations

import asyncio
import contextvars
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from agentgym.threads import ThreadPool, in_thread


async def test_a_result_and_an_error_come_back():
    assert await in_thread(lambda a, *, b: a + b, 1, b=2) == 3
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)


@pytest.mark.parametrize("error", [SystemExit(2), StopIteration("x")])
async def test_what_would_end_more_than_the_tool_becomes_a_runtime_error(error):
    def rude():
        raise error

    with pytest.raises(RuntimeError, match=type(error).__name__):
        await in_thread(rude)


async def test_context_variables_are_seen_in_the_thread():
    name = contextvars.ContextVar("name", default="unset")
    name.set("set")
    assert await in_thread(name.get) == "set"


async def test_many_more_block_at_once_than_an_executor_has_threads():
    """All must be inside at the same time, or the barrier breaks."""
    barrier = threading.Barrier(100, timeout=300)  # a loaded machine starts a thread in a tenth of a second
    await asyncio.gather(*(in_thread(barrier.wait) for _ in range(100)))


def test_work_never_waits_for_a_thread_that_is_busy():
    """Threads that start late, beside others that have just become idle, must not be counted on twice."""

    class LateThreads(ThreadPool):
        def _serve(self) -> None:
            time.sleep(random.random() * 0.003)
            super()._serve()

    for _ in range(10):
        pool, barrier = LateThreads(), threading.Barrier(17, timeout=60)
        for _ in range(60):
            pool.submit(lambda: None)
            time.sleep(random.random() * 0.0005)
        for _ in range(16):
            pool.submit(barrier.wait)
        barrier.wait()


async def test_threads_are_used_again():
    await in_thread(time.sleep, 0.001)
    await asyncio.sleep(0.01)
    before = threading.active_count()
    for _ in range(20):
        await in_thread(int)
        await asyncio.sleep(0.01)  # until the thread is idle again
    assert threading.active_count() < before + 20


async def test_cancelling_stops_the_waiting_and_the_thread_serves_others_later():
    release = threading.Event()
    waiting = asyncio.ensure_future(in_thread(release.wait))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await in_thread(lambda: "others go on") == "others go on"
    release.set()


def test_a_hanging_tool_does_not_keep_the_process_from_ending():
    code = """
import asyncio, time
from agentgym.threads import ThreadPool, in_thread
async def main():
    async with asyncio.timeout(0.05):
        await in_thread(time.sleep, 3600)
try:
    asyncio.run(main())
except TimeoutError:
    print("ended")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=True)
    assert done.stdout == "ended\n"


def test_a_loop_that_is_gone_when_the_work_ends_is_no_error():
    async def leave():
        waiting = asyncio.ensure_future(in_thread(time.sleep, 0.05))
        await asyncio.sleep(0.01)
        waiting.cancel()

    asyncio.run(leave())
    time.sleep(0.1)
    assert asyncio.run(in_thread(lambda: 1)) == 1


def test_a_forked_process_starts_threads_of_its_own():
    """The pool of the parent has an idle thread, which the child does not have."""
    asyncio.run(in_thread(int))
    time.sleep(0.05)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = asyncio.run(asyncio.wait_for(in_thread(lambda: 0), 5))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
