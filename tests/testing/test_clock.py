"""The fake clock jumps over waiting and keeps order."""

from __future__ import annotations

import asyncio

import pytest

from agentgym.testing import FakeClock


def test_an_hour_passes_at_once():
    clock = FakeClock()
    clock.run(asyncio.sleep(3600))
    assert clock.now == pytest.approx(3600)
    clock.run(asyncio.sleep(1))
    assert clock.now == pytest.approx(3601)


def test_sleepers_wake_in_the_order_of_their_times():
    order = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        order.append(seconds)

    async def all_of_them():
        await asyncio.gather(*map(sleeper, (3, 1, 2)))

    clock = FakeClock()
    clock.run(all_of_them())
    assert order == [1, 2, 3]
    assert clock.now == pytest.approx(3)


def test_a_timeout_fires_at_its_time():
    async def hang():
        async with asyncio.timeout(5):
            await asyncio.sleep(100)

    clock = FakeClock()
    with pytest.raises(TimeoutError):
        clock.run(hang())
    assert clock.now == pytest.approx(5)


def test_work_in_a_thread_still_ends():
    async def work():
        return await asyncio.to_thread(lambda: 7)

    assert FakeClock().run(work()) == 7
