"""Many episodes: order, limits, laziness, what the policy is told, and leaving nothing behind."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing, closing
from dataclasses import replace

import pytest
from scripted_episodes import counting, say, task

from agentgym import Budgets, EpisodeManager, Policy, RolloutConfig, ScriptedPolicy, Task, tool
from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.errors import UnknownNameError
from agentgym.messages import Message
from agentgym.policy import Reply
from agentgym.registry import register
from agentgym.rollout.workers.slots import Slots
from agentgym.storage import Ledger
from agentgym.testing import Counter, FakeClock, TargetReached


class Census(Counter):
    """A slow counter that knows how many of its kind are alive."""

    alive = most = created = 0

    def __init__(self) -> None:
        super().__init__(latency_s=1.0)
        kind = type(self)
        kind.created += 1
        kind.alive += 1
        kind.most = max(kind.most, kind.alive)

    async def close(self) -> None:
        await asyncio.sleep(0)
        type(self).alive -= 1


@pytest.fixture
def census() -> type[Census]:
    return type("Fresh", (Census,), {})


SLOW = [say("slow_add"), say("slow_add"), say("submit")]


class Announced(ScriptedPolicy):
    """Remembers who is live."""

    def __init__(self, script):
        super().__init__(script)
        self.live, self.started, self.ended, self.most = set(), [], [], 0

    def episode_started(self, episode):
        self.live.add(episode)
        self.started.append(episode)
        self.most = max(self.most, len(self.live))

    def episode_ended(self, episode):
        self.live.remove(episode)
        self.ended.append(episode)


async def test_collect_returns_groups_in_the_order_of_the_tasks_whatever_finishes_first():
    class Uneven(Counter):
        async def reset(self, task, *, seed):
            await asyncio.sleep(0.001 * task.parameters["target"])
            return await super().reset(task, seed=seed)

    tasks = [task(f"t{n}", target=3 - n) for n in range(4)]
    manager = EpisodeManager(
        lambda task: ScriptedPolicy(counting(task.truth)), RolloutConfig(environment=Uneven, reward=TargetReached())
    )
    trajectories = await manager.collect(tasks, group_size=2)
    assert [t.id for t in trajectories] == [f"run/t{n}#{sample}" for n in range(4) for sample in range(2)]
    assert all(t.outcome == {"success": 1.0} for t in trajectories)
    assert len({t.seed for t in trajectories[:2]}) == 1  # a group meets one world
    assert len({t.seed for t in trajectories}) == 4


def test_episodes_are_yielded_when_they_end_and_no_batch_waits_for_its_slowest():
    class Sleeper(Counter):
        async def reset(self, task, *, seed):
            await asyncio.sleep(task.parameters["target"])
            return await super().reset(task, seed=seed)

    clock = FakeClock()
    ended = []

    async def playing():
        manager = EpisodeManager(ScriptedPolicy([say("submit")]), RolloutConfig(environment=Sleeper, concurrency=2))
        async for trajectory in manager.run([task(f"t{s}", target=s) for s in (100, 1, 2, 3)]):
            ended.append((trajectory.task.id, round(clock.now)))

    clock.run(playing())
    assert ended == [("t1", 1), ("t2", 3), ("t3", 6), ("t100", 100)]


def test_no_more_environments_exist_at_once_than_the_concurrency(census):
    manager = EpisodeManager(ScriptedPolicy(SLOW), RolloutConfig(environment=census, concurrency=7))
    clock = FakeClock()
    trajectories = clock.run(manager.collect([task(f"t{n}") for n in range(70)]))
    assert len(trajectories) == census.created == 70
    assert census.most == 7
    assert census.alive == 0
    assert clock.now == pytest.approx(70 / 7 * 2.0)  # ten waves of two slow calls: nobody waits without need


def test_tasks_are_taken_only_when_there_is_room(census):
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield task(f"t{len(taken)}")

    async def playing():
        manager = EpisodeManager(ScriptedPolicy(SLOW), RolloutConfig(environment=census, concurrency=5))
        async with aclosing(manager.run(endless())) as running:
            async for _ in running:
                if census.created > 20:
                    break

    FakeClock().run(playing())
    assert len(taken) <= census.created + 1
    assert census.alive == 0


def test_a_slow_reader_holds_back_the_players():
    created = []

    class Seen(Counter):
        def __init__(self):
            super().__init__()
            created.append(1)

    async def reading():
        manager = EpisodeManager(
            ScriptedPolicy([say("slow_add"), say("submit")]), RolloutConfig(environment=Seen, concurrency=4)
        )
        most = count = 0
        async for _ in manager.run([task(f"t{n}") for n in range(100)]):
            await asyncio.sleep(10)
            count += 1
            most = max(most, len(created) - count)
        return count, most

    count, most = FakeClock().run(reading())
    assert count == 100
    assert most <= 12  # four in progress and eight that wait to be read


def test_the_policy_is_told_of_every_beginning_and_end_and_of_the_first_ones_before_any_begins():
    policy = Announced(SLOW)
    started_when_asked = []

    class Asking(Announced):
        async def generate(self, request):
            started_when_asked.append(len(self.started))
            return await super().generate(request)

    policy = Asking(SLOW)
    FakeClock().run(
        EpisodeManager(policy, RolloutConfig(environment=Counter, concurrency=8)).collect(
            [task(f"t{n}") for n in range(20)]
        )
    )
    assert started_when_asked[0] == 8
    assert sorted(policy.started) == sorted(policy.ended)
    assert len(policy.started) == 20
    assert policy.most == 9  # the next is announced before the last one ends, so that no batch misses it


@pytest.mark.parametrize("after_s", [0.0, 0.5, 1.5])
def test_cancelling_closes_every_environment_ends_every_episode_and_leaves_no_task(census, after_s):
    policy = Announced(SLOW)

    async def cancelled():
        manager = EpisodeManager(policy, RolloutConfig(environment=census, concurrency=10))
        playing = asyncio.ensure_future(manager.collect([task(f"t{n}") for n in range(50)]))
        await asyncio.sleep(after_s)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert FakeClock().run(cancelled()) == set()
    assert census.alive == 0
    assert policy.live == set()
    assert sorted(policy.started) == sorted(policy.ended)


def test_closing_is_awaited_even_when_a_second_cancellation_comes_meanwhile():
    closed = []

    class SlowToClose(Counter):
        async def close(self):
            await asyncio.sleep(5)
            closed.append(1)

    async def impatient():
        manager = EpisodeManager(
            ScriptedPolicy([say("slow_add")] * 9), RolloutConfig(environment=lambda: SlowToClose(100.0))
        )
        playing = asyncio.ensure_future(manager.collect([task("a"), task("b")]))
        for _ in range(3):
            await asyncio.sleep(1)
            playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        await asyncio.sleep(10)

    FakeClock().run(impatient())
    assert len(closed) == 2


async def test_a_failing_task_source_stops_the_run_and_leaves_nothing(census):
    def broken():
        yield task("a")
        yield task("b")
        raise OSError("the file ended in the middle")

    policy = Announced(SLOW)
    with pytest.raises(OSError, match="in the middle"):
        await EpisodeManager(policy, RolloutConfig(environment=census, concurrency=4)).collect(broken())
    assert (census.alive, policy.live) == (0, set())


async def test_a_task_that_comes_twice_gets_new_sample_numbers():
    manager = EpisodeManager(ScriptedPolicy(counting(2)), RolloutConfig(environment=Counter))
    trajectories = await manager.collect([task("a"), task("b"), task("a")], group_size=2)
    assert [t.id for t in trajectories] == [f"run/{i}" for i in ("a#0", "a#1", "b#0", "b#1", "a#2", "a#3")]


async def test_one_failed_episode_does_not_disturb_the_others():
    class Sometimes(Counter):
        async def reset(self, task, *, seed):
            if task.id == "t3":
                raise RuntimeError("no world today")
            return await super().reset(task, seed=seed)

    manager = EpisodeManager(ScriptedPolicy(counting(2)), RolloutConfig(environment=Sometimes, reward=TargetReached()))
    trajectories = await manager.collect([task(f"t{n}") for n in range(6)])
    assert [t.valid for t in trajectories] == [n != 3 for n in range(6)]


async def test_the_environment_is_the_tasks_own_unless_one_is_given_and_its_declared_reward_judges():
    class Declared(Counter):
        reward = "test_target_reached"

    register("test/declared-v1", Declared)
    register("test_target_reached", TargetReached, kind="rewards")
    own = Task("own", "test/declared-v1", "Count.", truth=2)
    trajectories = await EpisodeManager(ScriptedPolicy(counting(2))).collect([own])
    assert trajectories[0].outcome == {"success": 1.0}
    trajectories = await EpisodeManager(
        ScriptedPolicy(counting(2)), RolloutConfig(environment="test/declared-v1")
    ).collect([task()])
    assert trajectories[0].outcome == {"success": 1.0}
    trajectories = await EpisodeManager(ScriptedPolicy(counting(2)), RolloutConfig(environment=Counter)).collect(
        [task()]
    )
    assert trajectories[0].outcome == {}
    assert trajectories[0].valid


async def test_environment_options_reach_the_constructor():
    class Speaking(Counter):
        async def reset(self, task, *, seed):
            return [Message("user", f"latency {self.latency_s}")]

    manager = EpisodeManager(
        ScriptedPolicy(counting(0)), RolloutConfig(environment=Speaking, environment_options={"latency_s": 0.5})
    )
    assert (await manager.collect([task()]))[0].opening[0].text == "latency 0.5"


async def test_tool_schemas_are_built_once_for_all_episodes():
    seen = set()

    class Looking(Policy):
        async def generate(self, request):
            seen.add(id(request.tools))
            assert [t["function"]["name"] for t in request.tools] == ["add", "slow_add", "refuse", "submit"]
            return Reply(say("submit"))

    await EpisodeManager(Looking(), RolloutConfig(environment=Counter)).collect([task(f"t{n}") for n in range(3)])
    assert len(seen) == 1


async def test_an_instance_may_have_tools_of_its_own():
    class Extra(Counter):
        def __init__(self):
            super().__init__()

            class More(Counter):
                @tool(inline=True, final=True)
                def leave(self) -> str:
                    """Leave."""
                    return "left"

            self.tools = More.tools

    trajectories = await EpisodeManager(ScriptedPolicy([say("leave")]), RolloutConfig(environment=Extra)).collect(
        [task()]
    )
    assert trajectories[0].turns[0].results[0].content == "left"


def test_nonsense_settings_are_refused_when_they_are_given():
    with pytest.raises(ValueError, match="concurrency is 0"):
        RolloutConfig(concurrency=0)
    with pytest.raises(UnknownNameError, match="no_such_reward"):
        EpisodeManager(ScriptedPolicy([]), RolloutConfig(reward="no_such_reward"))
    for wrong in (
        {"max_turns": 0},
        {"max_turn_tokens": 0},
        {"max_episode_tokens": 0},
        {"time_s": 0},
        {"infra_retries": -1},
        {"max_calls": 1.5},
    ):
        with pytest.raises(ValueError, match=f"Budgets.{next(iter(wrong))}"):
            Budgets(**wrong)


async def test_a_group_of_none_is_refused():
    with pytest.raises(ValueError, match="group_size = 0"):
        await EpisodeManager(ScriptedPolicy([]), RolloutConfig(environment=Counter)).collect([task()], group_size=0)


async def test_the_garbage_collector_is_calm_while_episodes_play_and_then_as_before():
    before = gc.get_threshold()
    manager = EpisodeManager(ScriptedPolicy(counting(1)), RolloutConfig(environment=Counter, concurrency=10))
    async with aclosing(manager.run([task("a"), task("b")])) as first, aclosing(manager.run([task("c")])) as second:
        await anext(first)
        alone = gc.get_threshold()[0]
        await anext(second)
        assert gc.get_threshold()[0] > alone > before[0]  # more episodes have more objects
        await first.aclose()
        assert gc.get_threshold()[0] == alone
    assert gc.get_threshold() == before


@pytest.mark.parametrize("field", ["reward", "environment", "backend"])
def test_an_unknown_name_in_the_config_is_said_before_anything_is_played(field):
    with pytest.raises(UnknownNameError, match=rf"Nothing in {field}s is named 'nope'"):
        EpisodeManager(ScriptedPolicy([]), RolloutConfig(**{field: "nope"}))


async def test_the_old_keyword_config_still_plays_with_another_config_and_warns(tmp_path):
    """`with_config` replaces it in `collect`, `stream` and `claim`."""
    config = RolloutConfig(environment=Counter, reward=TargetReached(), temperature=0.5)
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        manager = EpisodeManager(ScriptedPolicy(counting(1)), replace(config, temperature=1.0), ledger=ledger)
        with pytest.warns(AgentGymDeprecationWarning, match=r"config= .* of collect\(\)"):
            (collected,) = await manager.collect([task(1)], label="a", config=config)
        with pytest.warns(AgentGymDeprecationWarning, match=r"config= .* of claim\(\)"):
            manager.claim("b", config=config)
        stream = manager.stream([task(1)], 1, label="b", slots=Slots(1), config=config)
        with pytest.warns(AgentGymDeprecationWarning, match=r"config= .* of stream\(\)"):
            streamed = [trajectory async for _, trajectory in stream]
    assert [t.provenance.temperature for t in (collected, *streamed)] == [0.5, 0.5]
