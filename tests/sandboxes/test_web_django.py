"""`web/admin-v1`: an application that is not ours, Django's administration, in the browser."""

from __future__ import annotations

import pytest

from agentgym.policy import ScriptedPolicy
from agentgym.registry import load_task_set
from agentgym.rollout import EpisodeManager, RolloutConfig

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]


async def test_both_players_do_every_kind_of_task_in_the_administration_of_django():
    pytest.importorskip("django")
    task_set = load_task_set("web/admin-v1")
    tasks = [*task_set["train"], *task_set["held_out"]]
    kinds = sorted({task.tags[0] for task in tasks})
    chosen = [next(task for task in tasks if task.tags[0] == kind) for kind in kinds]
    chosen.append(next(task for task in tasks if "unseen_worlds" in task.tags))
    assert len(kinds) == 7
    for player, success in (task_set.oracle, 1.0), (task_set.imperfect_oracle, 0.0):
        manager = EpisodeManager(lambda task, player=player: ScriptedPolicy(player(task)), RolloutConfig(concurrency=2))
        episodes = await manager.collect(chosen)
        assert [episode.error for episode in episodes] == [None] * len(chosen)
        results = {episode.task.tags[0]: episode.success for episode in episodes}
        assert [episode.success for episode in episodes] == [success] * len(chosen), results
