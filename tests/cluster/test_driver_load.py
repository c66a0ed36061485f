"""The share of time in which the driver computes: its sum, its warning, and where it is shown."""

from __future__ import annotations

import asyncio

import pytest

from agentgym.cluster.driver_load import DriverLoad
from agentgym.testing import FakeClock


@pytest.mark.parametrize(("share", "warnings"), [(0.5, 0), (0.9, 1)])
def test_the_share_is_that_of_the_last_minute_of_play_and_a_full_driver_is_told_once(share, warnings, caplog):
    async def scenario() -> None:
        now = asyncio.get_running_loop().time
        load = DriverLoad(now, lambda: share * now())
        assert load.busy == 0
        async with load.measured(), load.measured():  # two runs at once count once
            await asyncio.sleep(3)
        assert load.busy == pytest.approx(share)
        await asyncio.sleep(1000)  # without a run
        async with load.measured():
            await asyncio.sleep(200)
        assert load.busy == pytest.approx(share)

    FakeClock().run(scenario())
    assert ["computed for 90 % of the last 60 s (driver/busy)" in message for message in caplog.messages] == [
        True
    ] * warnings


def test_an_idle_minute_replaces_a_busy_one():
    async def scenario() -> None:
        now = asyncio.get_running_loop().time
        load = DriverLoad(now, lambda: min(now(), began + 100))
        began = now()
        async with load.measured():
            await asyncio.sleep(100)
            assert load.busy == pytest.approx(1)
            await asyncio.sleep(100)
            assert load.busy == 0

    FakeClock().run(scenario())
