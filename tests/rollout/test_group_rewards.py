"""Rewards that see a whole group, or a whole episode in hindsight: asked once, kept, and resumed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from scripted_episodes import Counter, make_manager, say, task

import agentgym
from agentgym import Budgets, Combined, EpisodeManager, Gate, JudgeError, Reward, RolloutConfig, ScriptedPolicy
from agentgym.errors import LedgerError
from agentgym.messages import StopReason
from agentgym.storage.ledger import Ledger
from agentgym.storage.summary import TABLE

SCRIPT = [say("add"), say("submit")]


class Ranked(Reward):
    """Success by sample, and in the group each episode's share of the successes."""

    def __init__(self):
        self.asked_for = []

    def outcome(self, episode):
        return {"success": float(episode.sample % 2)}

    async def group(self, episodes):
        self.asked_for.append([episode.id for episode in episodes])
        total = sum(episode.outcome["success"] for episode in episodes)
        return [{"share": episode.outcome["success"] / max(total, 1.0)} for episode in episodes]


class Silent(ScriptedPolicy):
    """The same player, who must not be asked again."""

    async def generate(self, request):
        raise AssertionError(f"{request.episode} is played again")


def manager(reward, **options):
    return make_manager(ScriptedPolicy(SCRIPT), reward=reward, **{"environment": Counter, **options})


async def test_a_group_is_judged_once_with_its_episodes_in_order_of_their_samples():
    reward = Ranked()
    trajectories = await manager(reward, concurrency=3).collect([task("a"), task("b")], group_size=4)
    assert [t.outcome for t in trajectories] == [{"success": s, "share": s / 2} for s in (0.0, 1.0, 0.0, 1.0)] * 2
    assert sorted(reward.asked_for) == [[f"run/{name}#{sample}" for sample in range(4)] for name in "ab"]


async def test_a_task_that_comes_again_is_another_group():
    reward = Ranked()
    await manager(reward).collect([task("a"), task("a")], group_size=2)
    assert sorted(reward.asked_for) == [["run/a#0", "run/a#1"], ["run/a#2", "run/a#3"]]


async def test_an_episode_that_failed_is_not_seen_and_the_others_are_judged():
    class Flaky(Counter):
        async def reset(self, task, *, seed):
            if outcomes_of_making.pop(0):
                raise OSError("no disk")
            return await super().reset(task, seed=seed)

    outcomes_of_making = [False, True, False, False]
    reward = Ranked()
    options = {"environment": Flaky, "concurrency": 1, "budgets": Budgets(infra_retries=0)}
    trajectories = await manager(reward, **options).collect([task("a")], group_size=4)
    assert [t.valid for t in trajectories] == [True, False, True, True]
    assert reward.asked_for == [["run/a#0", "run/a#2", "run/a#3"]]
    assert "share" not in trajectories[1].outcome


async def test_a_group_that_cannot_be_judged_fails_as_a_whole_after_its_retries():
    class Down(Ranked):
        def group(self, episodes):
            self.asked_for.append(1)
            raise JudgeError("the server is down")

    reward = Down()
    trajectories = await manager(reward, budgets=Budgets(infra_retries=2)).collect([task("a")], group_size=2)
    assert len(reward.asked_for) == 3
    assert {t.stop_reason for t in trajectories} == {StopReason.INFRA_ERROR}
    assert all("the server is down" in t.error and "judging the group" in t.error for t in trajectories)


@pytest.mark.parametrize(("answer", "says"), [([{}], "1 answers for 2"), ({}, "{}"), ([{"success": 1.0}] * 2, "twice")])
async def test_a_group_answer_of_another_shape_is_named(answer, says):
    class Wrong(Ranked):
        def group(self, episodes):
            return answer

    trajectories = await manager(Wrong()).collect([task("a")], group_size=2)
    assert says in trajectories[0].error


async def test_a_declared_reward_judges_groups_too_and_other_environments_are_not_held_back():
    agentgym.register("ranked_for_tests", Ranked, kind="rewards")

    class Declares(Counter):
        reward = "ranked_for_tests"

    for factory in (Declares, lambda: Declares()):
        manager = EpisodeManager(ScriptedPolicy(SCRIPT), RolloutConfig(environment=factory))
        assert [t.outcome["share"] for t in await manager.collect([task("a")], 2)] == [0.0, 1.0]


def as_before_0_2(path):
    """Make a ledger what earlier versions wrote: no column for what awaits its group, but a key of the provenance."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("SELECT count(*) FROM episode WHERE awaits_group = 1").fetchone() == (2,)
        connection.execute(
            "UPDATE episode SET head = json_set(head, '$.provenance.group_pending', json('true')) WHERE awaits_group"
        )
        connection.execute("ALTER TABLE episode DROP COLUMN awaits_group")


@pytest.mark.parametrize("rewritten", [lambda path: None, as_before_0_2])
async def test_a_run_that_broke_off_before_a_group_was_judged_judges_it_on_resuming(tmp_path, rewritten):
    """The first run is stopped in its judge; what it played is kept, and none of it is played again."""
    reached = asyncio.Event()

    class Waits(Ranked):
        async def group(self, episodes):
            reached.set()
            await asyncio.Event().wait()

    Waits.__qualname__ = Ranked.__qualname__  # the same judge, stopped in the middle
    ledger = Ledger(tmp_path / "ledger.sqlite")
    playing = asyncio.ensure_future(manager(Waits(), ledger=ledger).collect([task("a")], group_size=2))
    await reached.wait()
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)
    ledger.close()
    rewritten(tmp_path / "ledger.sqlite")
    ledger, reward = Ledger(tmp_path / "ledger.sqlite"), Ranked()
    silent = EpisodeManager(Silent(SCRIPT), RolloutConfig(reward=reward, environment=Counter), ledger=ledger)
    trajectories = await silent.collect([task("a")], group_size=2)
    assert [t.outcome for t in trajectories] == [{"success": 0.0, "share": 0.0}, {"success": 1.0, "share": 1.0}]
    second_reward = Ranked()
    reread = EpisodeManager(Silent(SCRIPT), RolloutConfig(reward=second_reward, environment=Counter), ledger=ledger)
    assert [t.outcome["share"] for t in await reread.collect([task("a")], group_size=2)] == [0.0, 1.0]
    assert second_reward.asked_for == []  # judged and kept
    rewards = ledger._connection.execute(f"SELECT reward FROM {TABLE} ORDER BY id").fetchall()
    assert rewards == [(0.0,), (2.0,)]  # what lists are made of knows it too
    other = replace(trajectories[0], id="run/nobody#0")
    with pytest.raises(LedgerError, match="lacks 1 of these episodes"):
        ledger.amend([trajectories[1], other])
    ledger.close()


class Later(Reward):
    """Knows only at the end which turn was worth something."""

    def turn(self, turn, episode):
        return {"step": 1.0}

    def outcome(self, episode):
        return {"success": 0.0}

    def hindsight(self, episode):
        return [{"late": len(episode.turns) - turn.index} for turn in episode.turns]


async def test_turns_are_judged_in_hindsight_and_the_ledger_keeps_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    (trajectory,) = await manager(Later(), ledger=ledger).collect([task("a")])
    assert [turn.rewards for turn in trajectory.turns] == [{"step": 1.0, "late": 2}, {"step": 1.0, "late": 1}]
    assert [turn.rewards for turn in ledger.load(trajectory.id).turns] == [turn.rewards for turn in trajectory.turns]
    ledger.close()


async def test_a_shut_gate_takes_turn_rewards_out_of_the_return_but_not_out_of_the_record():
    """R = success + 1[success >= 1] * (1 + 1): 0 where it failed, 3 where it succeeded."""

    class Steps(Ranked):
        def turn(self, turn, episode):
            return {"step": 1.0}

        def has_stage(self, stage):
            return stage != "group"

    reward = Combined(Steps(), gates=[Gate("success", 1.0, opens=("step",))])
    lost, won = await manager(reward).collect([task("a")], group_size=2)
    assert (lost.return_from(), won.return_from()) == (0.0, 3.0)
    assert [turn.rewards for turn in lost.turns] == [{"step": 1.0}] * 2
