"""The player in the background: what it begins, in which order it hands over, and what becomes of failures."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from scripted_episodes import counting, task
from streams import TASKS, Held, gathered, stream_of, task_ids, trained, wait_until

from agentgym import Task
from agentgym.credit import estimator
from agentgym.credit.batch import batch_credit_of
from agentgym.errors import AgentGymError, EpisodesFailed, LedgerError, RecipeError
from agentgym.storage.ledger import Ledger
from agentgym.training.gatherers import make_gatherer


def versions_of(groups) -> set[int]:
    return {turn.policy_version for group in groups for t in group.trained if t.valid for turn in t.turns}


def test_groups_come_in_order_and_nothing_begins_before_the_gate_opens(tmp_path):
    with stream_of(tmp_path) as (stream, rollouts, player):
        stream.publish(0)
        assert stream.outstanding == 4
        assert task_ids(gathered(stream, rollouts, player, ready=4)) == ["t0", "t1"]
        assert stream.outstanding == 2
        assert len(set(player.requested)) == 8
        trained(stream, player)
        assert stream.outstanding == 4
        groups = gathered(stream, rollouts, player, ready=4)
        assert (task_ids(groups), versions_of(groups)) == (["t2", "t3"], {0})
        assert (stream.metrics["async/age_mean"], stream.metrics["async/masked"]) == (1.0, 0.0)
        trained(stream, player)
        groups = gathered(stream, rollouts, player, ready=4)
        assert (task_ids(groups), versions_of(groups)) == (["t4", "t5"], {1})


def test_one_slow_group_does_not_hold_up_the_trainer(tmp_path):
    held = Held()
    held.held["t0"] = asyncio.Event()
    with stream_of(tmp_path, held) as (stream, rollouts, player):
        stream.publish(0)
        assert task_ids(gathered(stream, rollouts, player, ready=3)) == ["t1", "t2"]
        trained(stream, player)
        assert task_ids(gathered(stream, rollouts, player, ready=3)) == ["t3", "t4"]
        assert stream.metrics["async/in_flight"] >= 1
        trained(stream, player)
        rollouts.loop.call(held.held["t0"].set)
        groups = gathered(stream, rollouts, player, ready=4)
        assert (task_ids(groups), versions_of(groups[:1])) == (["t0", "t5"], {2})


def test_wrappers_choose_among_groups_that_were_played_in_the_background(tmp_path, monkeypatch):
    """Tasks are solved in the first step and not in the second: their groups then get the stored successes.

    They are read in the thread of the episodes, which write the ledger meanwhile.
    """
    readers = []

    def load(ledger, episode):
        readers.append(threading.current_thread().name)
        return load_as_ever(ledger, episode)

    load_as_ever = Ledger.load
    monkeypatch.setattr(Ledger, "load", load)
    with stream_of(tmp_path, staleness=0, draw=lambda count, step: TASKS[:count]) as (stream, rollouts, player):
        gather = make_gatherer(stream.gather, ["success_replay", "top_spread(share=0.5)"])
        stream.publish(0)
        first = gathered(stream, rollouts, player, ready=2, gather=gather)
        assert [[t.success for t in group.trained if t.valid] for group in first] == [[1.0, 1.0], []]
        player.script = counting(1)
        trained(stream, player)
        groups = gathered(stream, rollouts, player, ready=2, gather=gather)
        assert [sorted(t.success for t in group.trained if t.valid) for group in groups] == [[0.0, 1.0], []]
        [replayed] = groups[0].replayed
        assert replayed.startswith("train-000000/t0#")
        assert set(readers) == {"agentgym-episodes"}
        assert [len(group.episodes) for group in groups] == [2, 2]


def test_an_exhausted_source_closes_the_gate_instead_of_hanging(tmp_path):
    with stream_of(tmp_path, draw=lambda count, step: TASKS[:3][step * count : (step + 1) * count]) as opened:
        stream, rollouts, player = opened
        stream.publish(0)
        assert stream.is_exhausted
        assert task_ids(gathered(stream, rollouts, player, ready=3)) == ["t0", "t1"]
        trained(stream, player)
        assert stream.outstanding == 1
        with pytest.raises(AgentGymError, match="a step trains on 2 groups, but only 1 are left"):
            gathered(stream, rollouts, player, ready=1)


def test_what_stops_the_player_is_raised_in_the_trainer(tmp_path):
    broken = Task("broken", "test/counter-v1", "Count.", parameters={"target": 2}, truth={1, 2})  # a set is no JSON
    with stream_of(tmp_path, draw=lambda count, step: [broken] * count) as (stream, rollouts, player):
        stream.publish(0)
        with pytest.raises(LedgerError, match="not JSON data"):
            gathered(stream, rollouts, player, ready=0)
        with pytest.raises(LedgerError, match="not JSON data"):
            stream.publish(1)


def test_a_batch_without_a_valid_episode_ends_the_run_and_is_played_again_when_it_is_resumed(tmp_path):
    held = Held()
    held.failing = {"t0", "t1"}
    with stream_of(tmp_path, held) as (stream, rollouts, player):
        stream.publish(0)
        with pytest.raises(EpisodesFailed, match=r"(?s)All 4 episodes.*its machine is gone"):
            gathered(stream, rollouts, player, ready=4)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert not ledger.finished("train-000000")
    ledger.close()


def test_failed_episodes_are_never_trained_on(tmp_path):
    held = Held()
    held.failing = {"t1"}
    with stream_of(tmp_path, held) as (stream, rollouts, player):
        stream.publish(0)
        trajectories = [t for group in gathered(stream, rollouts, player, ready=4) for t in group.trained]
        assert [t.valid for t in trajectories] == [True, True, False, False]
        credit = batch_credit_of(trajectories, estimator("rloo"), group_size=2)
        assert not np.concatenate(credit.advantages[2:]).any()


def test_a_quorum_trains_a_group_as_one_of_the_episodes_that_are_there(tmp_path):
    """The late one joins nothing and is counted; the baseline is that of two, not of three with one at 0."""
    held = Held()
    held.waits_once, held.held["first of t0"] = {"t0"}, asyncio.Event()
    with stream_of(tmp_path, held, group_size=3, quorum=2) as (stream, rollouts, player):
        stream.publish(0)
        groups = gathered(stream, rollouts, player, ready=4, size=3)
        assert task_ids(groups) == ["t0", "t1"]
        rows = groups[0].trained
        assert [t.valid for t in rows] == [False, True, True]
        assert groups[0].episodes == rows[1:]
        assert len({t.id for t in rows}) == 3
        rows[1].outcome, rows[2].outcome = {"success": 1.0}, {"success": 0.0}
        credit = batch_credit_of(rows, estimator("rloo"), group_size=3).advantages
        assert [a.tolist() for a in credit] == [[], [1.0] * 3, [-1.0] * 3]
        before = sum(step.late for step in stream._steps)
        rollouts.loop.call(held.held["first of t0"].set)
        wait_until(lambda: sum(step.late for step in stream._steps) > before)
        trained(stream, player)
        assert task_ids(gathered(stream, rollouts, player, ready=4, size=3)) == ["t2", "t3"]
        assert stream.metrics["async/late"] >= 1


def test_a_resumed_stream_hands_over_each_group_once_and_reads_back_what_was_finished(tmp_path):
    held = Held()
    held.held["t2"] = asyncio.Event()
    with stream_of(tmp_path, held) as (stream, rollouts, player):
        stream.publish(0)
        assert task_ids(gathered(stream, rollouts, player, ready=3)) == ["t0", "t1"]
        trained(stream, player)
        wait_until(lambda: stream._steps[-1].ready == [0, 1])
        state = stream.state()
    assert state["steps"][0] == {"number": 1, "tasks": ["t2", "t3"], "consumed": []}
    with stream_of(tmp_path, state=state) as (stream, rollouts, player):
        player.version = 1
        stream.publish(1)
        order = []
        for _ in range(3):
            order += task_ids(gathered(stream, rollouts, player, ready=4))
            trained(stream, player)
        assert order == ["t2", "t3", "t4", "t5", "t6", "t7"]
        requested = {episode.split("/")[1].partition("#")[0] for episode in player.requested}
        assert "t2" in requested
        assert not requested & {"t0", "t1", "t3", "t4", "t5"}  # trained on, or finished before
    with (
        pytest.raises(RecipeError, match="has unfinished groups of the task 'gone'"),
        stream_of(tmp_path, state={**state, "steps": [{"number": 1, "tasks": ["gone"], "consumed": []}]}),
    ):
        pass


def test_groups_that_were_trained_out_of_turn_are_left_out_when_the_stream_is_resumed(tmp_path):
    held = Held()
    held.held["t0"] = asyncio.Event()
    with stream_of(tmp_path, held) as (stream, rollouts, player):
        stream.publish(0)
        assert task_ids(gathered(stream, rollouts, player, ready=3)) == ["t1", "t2"]
        state = stream.state()
    assert [(step["tasks"], step["consumed"]) for step in state["steps"]] == [(["t0", "t1"], [1]), (["t2", "t3"], [0])]
    with stream_of(tmp_path, state=state) as (stream, rollouts, player):
        stream.publish(1)
        assert task_ids(gathered(stream, rollouts, player, ready=2)) == ["t0", "t3"]
        assert stream.metrics["async/late"] == 0
        assert {episode.split("/")[1].partition("#")[0] for episode in player.requested} <= {"t0", "t4", "t5"}


def test_episodes_of_all_steps_together_are_no_more_than_the_concurrency(tmp_path):
    """Slots are shared, and a step whose episodes are all begun leaves its slots to the next one."""
    from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy
    from agentgym.rollout.workers.slots import Slots
    from agentgym.testing import Counter

    live, most = 0, 0

    class Counted(Counter):
        async def reset(self, task, *, seed):
            nonlocal live, most
            live += 1
            most = max(most, live)
            await asyncio.sleep(0.001)
            return await super().reset(task, seed=seed)

        async def close(self):
            nonlocal live
            live -= 1
            await super().close()

    async def play():
        manager = EpisodeManager(ScriptedPolicy(["done"] * 2), RolloutConfig(environment=Counted, reward=None))
        slots, positions = Slots(3), []

        async def play_step(number: int) -> None:
            tasks = [task(f"s{number}-{i}") for i in range(4)]
            stream = manager.stream(tasks, 2, label=f"step-{number}", slots=slots, skip={1})
            positions.append(sorted([position async for position, _ in stream]))

        await asyncio.gather(*map(play_step, range(3)))
        return positions

    assert asyncio.run(play()) == [[0, 1, 4, 5, 6, 7]] * 3
    assert most == 3
