"""`web/admin-v1` and `web/wiki-v1`: applications that are not ours, from the package index, in the browser."""

from __future__ import annotations

import pytest
from by_day import some_by_day
from web_pages import Visit

import agentgym
from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy
from agentgym.messages import Message
from agentgym.registry import load_task_set

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
PACKAGES = {"web/admin-v1": ("django", 8), "web/wiki-v1": ("flask_wiki", 7)}


def task_of_every_kind(task_set):
    """One of each, all on the same data, which is set up once."""
    tasks = [task for split in task_set.values() for task in split if task.parameters["seed"] == 0]
    return list({task.tags[0]: task for task in tasks}.values())


@pytest.mark.parametrize("name", ["web/admin-v1", pytest.param("web/wiki-v1", marks=pytest.mark.thorough)])
async def test_the_oracle_does_every_kind_of_task_and_the_imperfect_one_none(name):
    package, kinds = PACKAGES[name]
    pytest.importorskip(package)
    task_set = load_task_set(name)
    tasks = task_of_every_kind(task_set)
    assert len(tasks) == kinds
    for player, success, chosen in (
        (task_set.oracle, 1.0, some_by_day(tasks, 2)),
        (task_set.imperfect_oracle, 0.0, some_by_day(tasks[:2], 1)),
    ):
        manager = EpisodeManager(lambda task, player=player: ScriptedPolicy(player(task)), RolloutConfig(concurrency=2))
        episodes = await manager.collect(chosen)
        assert [episode.error for episode in episodes] == [None] * len(chosen)
        assert {e.task.tags[0]: e.success for e in episodes} == dict.fromkeys((t.tags[0] for t in chosen), success)


@pytest.mark.thorough
async def test_a_checkpoint_has_what_the_database_of_the_application_had():
    pytest.importorskip("django")
    task = next(task for task in load_task_set("web/admin-v1")["train"] if task.parameters["seed"] == 0)
    async with await Visit.to(task) as visit:
        for tool, arguments in (
            ("click", {"target": "Groups"}),
            ("click", {"target": "ADD GROUP"}),
            ("type", {"target": "Name:", "text": "Night shift"}),
            ("click", {"target": "Save"}),
        ):
            assert (await visit.call(tool, **arguments)).ok
        checkpoint = await visit.environment.checkpoint()
        await visit.call("go", to="back")
    twin = agentgym.make(task.environment)
    async with Visit(twin, [Message("user", "")]) as visit:
        await twin.restore(task, checkpoint, seed=0)
        end = await visit.call("answer")
        assert '"effects": {"groups": {"Night shift": []}}' in end.content
