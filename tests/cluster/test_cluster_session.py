"""Episodes on several workers come out as in one process, and a worker that is lost loses none of them."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path

import pytest
from cluster_sessions import NODE, SCRIPT, TASKS, Link, TwoWorkers, plain

from agentgym import Budgets, EpisodeManager, PolicyError, RolloutConfig, ScriptedPolicy
from agentgym.cluster import RayEngine
from agentgym.cluster.episode_worker import EpisodeWorker
from agentgym.errors import (
    ClusterError,
    ContextFull,
    JudgeError,
    LedgerError,
    RecipeError,
    ReplayDiverged,
    SandboxDied,
    ServerUnreachable,
)
from agentgym.policy import Reply
from agentgym.storage import Ledger
from agentgym.testing import ByteRenderer, CounterWithState, FakeClock, TargetReached
from agentgym.training.recipe.recipe import Recipe


def manager(engine=None, policy=None, ledger=None, **options) -> EpisodeManager:
    config = RolloutConfig(
        environment=CounterWithState, reward=TargetReached(), engine=engine, concurrency=4, **options
    )
    return EpisodeManager(policy or (lambda task: ScriptedPolicy(SCRIPT)), config, ledger=ledger, label="run")


def test_episodes_on_two_workers_are_those_of_one_process():
    async def scenario() -> None:
        policy = ScriptedPolicy(SCRIPT, renderer=ByteRenderer())
        here = await manager(policy=policy).collect(TASKS, 2)
        engine = TwoWorkers()
        there = await manager(engine, policy=policy).collect(TASKS, 2)
        assert [plain(trajectory) for trajectory in there] == [plain(trajectory) for trajectory in here]
        assert {trajectory.success for trajectory in there} == {1.0}
        assert [link.began for link in engine.links] == [8, 8]
        assert there[0].turns[0].token_ids != []

    FakeClock().run(scenario())


def test_a_worker_that_is_lost_loses_no_episode_and_doubles_none(tmp_path):
    async def scenario() -> None:
        ledger, engine = Ledger(tmp_path / "ledger.sqlite"), TwoWorkers()
        engine.links[1].dies_after = 3
        trajectories = await manager(engine, ledger=ledger).collect(TASKS, 2)
        assert [(t.error, t.success) for t in trajectories] == [(None, 1.0)] * 16
        [reason] = engine.lost
        assert "The worker on b is gone (ConnectionError: the node is gone)" in reason
        moved = [t for t in trajectories if t.provenance.retries]
        assert 1 <= len(moved) <= 4
        assert moved[0].provenance.retries == [f"{reason} The episode began anew on another worker."]
        recorded = list(ledger.trajectories())
        assert sorted(t.id for t in recorded) == sorted(t.id for t in trajectories)
        assert {t.id: plain(t) for t in recorded} == {t.id: plain(t) for t in trajectories}
        ledger.close()

    asyncio.run(scenario())


@pytest.mark.thorough
def test_fifty_deaths_at_random_moments_lose_no_episode_and_double_none(tmp_path):
    async def scenario(seed: int) -> int:
        chance, engine = random.Random(seed), TwoWorkers("abcdefg")
        ledger = Ledger(tmp_path / f"{seed}.sqlite")
        for link in engine.links[1:]:
            link.dies_after = chance.randint(1, 12)
            link.answers_left = chance.randint(0, 30)
        trajectories = await manager(engine, ledger=ledger).collect(TASKS, 6)
        assert [(t.error, t.success, len(t.turns)) for t in trajectories] == [(None, 1.0, 3)] * 48
        assert {t.id: plain(t) for t in ledger.trajectories()} == {t.id: plain(t) for t in trajectories}
        ledger.close()
        return len(engine.lost)

    deaths = 0
    for seed in range(20):
        deaths += asyncio.run(scenario(seed))
    assert deaths >= 50


def test_without_a_worker_the_run_waits_and_then_stops_with_the_cause_and_the_remedy(caplog):
    async def scenario() -> None:
        engine = TwoWorkers(wait_s=90)
        for link in engine.links:
            link.dies_after = 1
        began = asyncio.get_running_loop().time()
        with pytest.raises(ClusterError) as stopped:
            await manager(engine).collect(TASKS)
        assert 90 <= asyncio.get_running_loop().time() - began < 95
        gone = r"No node of the cluster is left to play on: The worker on \w is gone .*worker on \w is gone .*\. "
        assert re.match(gone + r"None came within 90 s .*`agentgym cluster up --join HOST:PORT`", str(stopped.value))
        [warning] = caplog.messages
        assert re.match(gone + r"The run waits up to 90 s for one \(machine\.wait_for_nodes_s\)", warning)

    FakeClock().run(scenario())


def test_when_every_worker_has_died_the_run_goes_on_with_the_next_ones(caplog):
    """Three times all workers die; others join after a while, on the same nodes and on a new one."""

    async def scenario() -> None:
        engine, clock = TwoWorkers("abc"), asyncio.get_running_loop()
        for link in engine.links:
            link.dies_after = 2

        def replace(after: int) -> None:
            names = "abcd" if after < 3 else "d"
            engine.links += [Link(name, EpisodeWorker()) for name in names]
            for link in engine.links[-len(names) :]:
                link.dies_after = 2 if after < 3 else None

        for after in (1, 2, 3):
            clock.call_later(100.0 * after, replace, after)
        trajectories = await manager(engine).collect(TASKS, 3)
        assert [(t.error, t.success, len(t.turns)) for t in trajectories] == [(None, 1.0, 3)] * 24
        assert len(engine.lost) == 11
        assert [link.began > 0 for link in engine.links] == [True] * 12, "each is used, also the one that joined"
        assert [message.partition(":")[0] for message in caplog.messages] == [
            "No node of the cluster is left to play on"
        ] * 3

    FakeClock().run(scenario())


def test_an_episode_whose_workers_always_die_fails_alone_and_its_record_can_be_read(tmp_path):
    """Each of its workers dies when it has recorded a turn or two."""

    class Deadly(CounterWithState):
        async def reset(self, task, *, seed):
            if task.id == "t0":
                link = next(link for link in engine.links if link.name == NODE.get() and not link.lost)
                link.dies_after, link.answers_left = 0, 6
            return await super().reset(task, seed=seed)

    async def scenario() -> None:
        ledger = Ledger(tmp_path / "ledger.sqlite")
        config = RolloutConfig(environment=Deadly, reward=TargetReached(), engine=engine, concurrency=1)
        manager = EpisodeManager(lambda task: ScriptedPolicy(SCRIPT), config, ledger=ledger, label="run")
        first, *others = await manager.collect(TASKS)
        assert re.match(r"ClusterError: it lost its worker 6 times; the last time: ", first.error)
        assert [(t.error, t.success) for t in others] == [(None, 1.0)] * 7
        assert len(engine.lost) == 6
        assert [t.id for t in ledger.trajectories()] == [t.id for t in (first, *others)]
        ledger.close()

    engine = TwoWorkers("abcdefg")
    FakeClock().run(scenario())


def test_a_time_to_wait_below_zero_is_refused_everywhere(tmp_path):
    with pytest.raises(ClusterError, match=r"wait_for_nodes_s is -1, but a run cannot wait less than 0 s"):
        RayEngine(wait_for_nodes_s=-1)
    recipe = Path(__file__).parents[2] / "recipes" / "quickstart.toml"
    with pytest.raises(RecipeError, match=r"machine\.wait_for_nodes_s = -1: .* greater than or equal to 0"):
        Recipe.load(recipe, ["machine.wait_for_nodes_s=-1"])


def test_finished_turns_are_kept_before_an_episode_ends_and_a_retried_episode_begins_anew(tmp_path):
    class FailsOnce(ScriptedPolicy):
        failures = 0

        async def generate(self, request) -> Reply:
            if request.turn == 2:
                recorded.append(ledger.load("run/t0#0"))
                if self.failures == 0:
                    self.failures += 1
                    raise PolicyError("its server went away")
            return await super().generate(request)

    async def scenario() -> None:
        [trajectory] = await manager(TwoWorkers(), FailsOnce(SCRIPT), ledger, budgets=Budgets(infra_retries=1)).collect(
            TASKS[:1]
        )
        assert trajectory.error is None
        assert "PolicyError: its server went away" in trajectory.provenance.retries[0]

    ledger, recorded = Ledger(tmp_path / "ledger.sqlite"), []
    asyncio.run(scenario())
    assert [(len(record.turns), record.stop_reason) for record in recorded] == [(2, None), (2, None)]
    assert len(ledger.load("run/t0#0").turns) == 3
    ledger.close()


def test_a_turn_that_cannot_be_kept_stops_the_run(tmp_path):
    class Full(Ledger):
        async def write_turn(self, trajectory, turn):
            raise LedgerError("the disk is full")

    async def scenario() -> None:
        ledger = Full(tmp_path / "ledger.sqlite")
        with pytest.raises(LedgerError, match="the disk is full"):
            await manager(TwoWorkers(), ledger=ledger).collect(TASKS)
        ledger.close()

    asyncio.run(scenario())


def test_a_run_that_is_left_early_closes_every_environment():
    closed = []

    class Counted(CounterWithState):
        async def close(self) -> None:
            closed.append(self.is_remote)
            await super().close()

    async def scenario() -> None:
        engine = TwoWorkers()
        config = RolloutConfig(environment=Counted, reward=TargetReached(), engine=engine, concurrency=4)
        thinking = asyncio.Event()

        class Thinking(ScriptedPolicy):
            async def generate(self, request) -> Reply:
                if request.turn == 1:
                    thinking.set()
                    await asyncio.Event().wait()
                return await super().generate(request)

        running = asyncio.ensure_future(EpisodeManager(Thinking(SCRIPT), config).collect(TASKS))
        await thinking.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert closed == [True] * 4
        assert not any(link.worker._sessions for link in engine.links)

    asyncio.run(scenario())


def test_a_branch_and_its_checkpoint_are_played_on_workers_too():
    from agentgym.rollout import Fork

    async def scenario() -> None:
        engine, requested = TwoWorkers(), {("t0", 0, 1): None}
        [record] = await manager(engine).collect(TASKS[:1], checkpoints=requested)
        assert requested[("t0", 0, 1)].data == {"value": 1}
        fork = Fork(record, 1, requested[("t0", 0, 1)])
        branches = [branch async for branch in manager(engine).branch([fork], 2)]
        assert [(b.error, b.success, b.provenance.branch.turn) for b in branches] == [(None, 1.0, 1)] * 2

    FakeClock().run(scenario())


class DiskFullOnB(CounterWithState):
    """Keeps a file beside itself; on node b the disk has no room for it."""

    def keep(self) -> None:
        Path("/dev/full" if NODE.get() == "b" else "/dev/null").write_text("state")

    async def reset(self, task, *, seed):
        self.keep()
        return await super().reset(task, seed=seed)


def test_episodes_that_fail_on_a_node_whose_disk_is_full_are_played_elsewhere_and_it_gets_no_more(tmp_path, caplog):
    async def scenario() -> None:
        ledger, engine = Ledger(tmp_path / "ledger.sqlite"), TwoWorkers()
        config = RolloutConfig(environment=DiskFullOnB, reward=TargetReached(), engine=engine, concurrency=4)
        manager = EpisodeManager(lambda task: ScriptedPolicy(SCRIPT), config, ledger=ledger, label="run")
        trajectories = await manager.collect(TASKS, 3)
        assert [(t.error, t.success) for t in trajectories] == [(None, 1.0)] * 24
        notes = [note for t in trajectories for note in t.provenance.retries]
        note_pattern = re.compile(r"On b it failed: .*No space left on device.* It began anew on another node\.")
        assert all(note_pattern.fullmatch(note) for note in notes)
        began_on_b = engine.links[1].began
        assert 3 <= began_on_b == len(notes) <= 6  # those that were under way when the third one failed
        [warning] = caplog.messages
        assert re.match(r"3 episodes in a row failed on the node b \(.*No space left on device", warning)
        assert warning.endswith("It gets no more for 30 s while another node is left.")
        assert {t.id: plain(t) for t in ledger.trajectories()} == {t.id: plain(t) for t in trajectories}
        ledger.close()

    FakeClock().run(scenario())


def test_an_episode_that_fails_everywhere_is_played_on_two_nodes_and_no_more():
    class Broken(CounterWithState):
        async def reset(self, task, *, seed):
            raise OSError("the database is gone")

    async def scenario() -> None:
        engine = TwoWorkers("abc")
        config = RolloutConfig(environment=Broken, reward=TargetReached(), engine=engine)
        [trajectory] = await EpisodeManager(lambda task: ScriptedPolicy(SCRIPT), config).collect(TASKS[:1])
        assert "the database is gone" in trajectory.error
        moves = [note for note in trajectory.provenance.retries if note.startswith("On ")]
        assert [note.partition(" it failed")[0] for note in moves] == ["On a"]
        assert [link.began for link in engine.links] == [1, 1, 0]

    FakeClock().run(scenario())


@pytest.mark.parametrize(
    ("error", "nodes"),
    [
        (OSError("PolicyError: a file of this name cannot be written"), 2),
        (SandboxDied("its runner ended"), 2),
        (ImportError("no module named chess"), 2),
        (JudgeError("no sandbox would run the tests"), 2),  # because of a sandbox
        (JudgeError("the model gave no number"), 1),
        (ServerUnreachable("the environment server is down"), 1),
        (ReplayDiverged("the opening differs"), 1),
        (ContextFull("the prompt is too long"), 1),
        (PolicyError("its server went away"), 1),
    ],
)
def test_what_fails_alike_on_every_node_is_not_played_again_on_another(error, nodes):
    class Failing(CounterWithState):
        async def reset(self, task, *, seed):
            if "sandbox" in str(error):
                raise error from SandboxDied("gone")
            raise error

    async def scenario() -> None:
        engine = TwoWorkers()
        config = RolloutConfig(
            environment=Failing, reward=TargetReached(), engine=engine, budgets=Budgets(infra_retries=0)
        )
        [trajectory] = await EpisodeManager(lambda task: ScriptedPolicy(SCRIPT), config).collect(TASKS[:1])
        assert trajectory.error.startswith(f"{type(error).__name__}: {error}")
        assert sum(link.began for link in engine.links) == nodes

    FakeClock().run(scenario())
