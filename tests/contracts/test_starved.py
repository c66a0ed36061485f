"""On a host that has too little time for sandboxes, no oracle loses: time limits count what code could do."""

from __future__ import annotations

import asyncio
import time

import pytest
from built_sets import built_set, each_task_set, one_of_each_namespace
from processes import spawners
from starved import may_starve, starved_sandboxes

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, Trajectory, close_backends, load

CHEAP = ("sql/store-v1", "apps/year-code-v1", "code/maths-v1")


async def play(name: str, time_s: float) -> Trajectory:
    task_set = built_set(name)
    config = RolloutConfig(budgets=Budgets(max_turns=200, max_calls=400, time_s=time_s))
    manager = EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task)), config)
    [episode] = await manager.collect(task_set["validation"][:1])
    return episode


@pytest.mark.needs_namespaces
@pytest.mark.thorough
@pytest.mark.skipif(not may_starve(), reason="only root may take a processor away")
@each_task_set(by_day=one_of_each_namespace())
async def test_no_oracle_loses_in_starved_sandboxes(name):
    await starve(name)


@pytest.mark.needs_namespaces
@pytest.mark.skipif(not may_starve(), reason="only root may take a processor away")
@pytest.mark.parametrize("name", CHEAP)
async def test_these_oracles_do_not_lose_in_starved_sandboxes(name):
    await starve(name)


async def starve(name: str) -> None:
    """Play a task's oracle with the time that it needs on a quiet host, in sandboxes that get a quarter of it."""
    if reason := load("environments", built_set(name)["validation"][0].environment).unavailable_reason():
        pytest.skip(reason)
    await play(name, 600.0)  # starts what stays: spawners, caches
    began = time.monotonic()
    quiet = await play(name, 600.0)
    quiet_s = time.monotonic() - began
    if quiet.error or not spawners():
        await close_backends()
        pytest.skip(quiet.error or "it uses no sandbox")
    with starved_sandboxes(0.25):
        starved = await play(name, 1.5 * quiet_s)
    await close_backends()
    await asyncio.sleep(0)
    assert (starved.error, starved.stop_reason, starved.success) == (None, quiet.stop_reason, quiet.success)
