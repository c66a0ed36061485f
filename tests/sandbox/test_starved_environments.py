"""A machine with too much to do makes no oracle lose, in any kind of environment."""

from __future__ import annotations

from functools import cache

import pytest
from by_day import cases
from starved import may_starve, starved_sandboxes

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, TaskSet, close_backends, registry
from agentgym.errors import AgentGymError

SHARE = 0.2


@cache
def kinds() -> dict[str, TaskSet]:
    """Return the first task set with an oracle of each installed environment that uses a sandbox."""
    sets: dict[str, TaskSet] = {}
    for name in registry.names("task_sets"):
        try:
            task_set = registry.load_task_set(name)
        except AgentGymError:  # it needs data that is not installed
            continue
        for task in task_set["train"][:1] if task_set.oracle else ():
            if getattr(registry.load("environments", task.environment), "sandbox", None) is not None:
                sets.setdefault(task.environment, task_set)
    return sets


@pytest.mark.needs_namespaces
@pytest.mark.skipif(not may_starve(), reason="only root may take a processor away")
@pytest.mark.parametrize("environment", cases(sorted(registry.names("environments")), by_day=("agentgym/sql-v1",)))
async def test_an_oracle_with_a_fifth_of_a_processor_solves_its_task_or_the_machine_is_named(environment, small):
    task_set = kinds().get(environment)
    if task_set is None:
        pytest.skip("no task set with an oracle plays it in a sandbox here")
    if reason := registry.load("environments", environment).unavailable_reason():
        pytest.skip(reason)
    script, [task] = task_set.oracle, task_set["train"][:1]
    config = RolloutConfig(budgets=Budgets(time_s=60.0, max_turns=64))
    manager = EpisodeManager(lambda task: ScriptedPolicy(script(task)), config)
    await (await registry.shared_backend().create(small)).close()  # a spawner to starve
    try:
        with starved_sandboxes(SHARE):
            [episode] = await manager.collect([task])
    finally:
        await close_backends()
    assert not episode.scored or episode.success == 1, (episode.stop_reason, episode.turns[-1].results)
    assert episode.error is None or "HostOverloaded" in episode.error
