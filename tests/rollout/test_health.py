"""A run whose machines fail one after another ends and can go on; one in which nothing moves says why."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing

import pytest
from scripted_episodes import counting, make_manager, say, task

from agentgym import ScriptedPolicy
from agentgym.errors import EpisodesFailed, SandboxDied
from agentgym.rollout.workers.slots import Slots
from agentgym.rollout.workers.standstill import StandstillWatch, standstill
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter, FakeClock, TargetReached


class OffAndOn(Counter):
    """Its machine is gone for some tasks."""

    gone: tuple[str, ...] = ()
    resets: tuple[str, ...] = ()

    async def reset(self, task, *, seed):
        if task.id in self.gone:
            raise SandboxDied("the machine is gone")
        OffAndOn.resets += (task.id,)
        return await super().reset(task, seed=seed)


def manager_of(ledger: Ledger | None = None, **options):
    OffAndOn.resets = ()
    options = {"environment": OffAndOn, "reward": TargetReached(), "concurrency": 1, "label": "run", **options}
    return make_manager(ScriptedPolicy(counting(2)), ledger=ledger, **options)


TASKS = [task(f"t{i}") for i in range(6)]


async def test_failures_in_a_row_end_the_run_with_their_causes_and_are_played_again(tmp_path, monkeypatch):
    monkeypatch.setattr(OffAndOn, "gone", ("t1", "t2", "t3", "t4"))
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        with pytest.raises(EpisodesFailed, match=r"3 episodes in a row failed.*3 x SandboxDied: the machine is gone"):
            await manager_of(ledger, max_failures_in_a_row=3).collect(TASKS)
        assert OffAndOn.resets == ("t0",)
        monkeypatch.setattr(OffAndOn, "gone", ())
        trajectories = await manager_of(ledger, max_failures_in_a_row=3).collect(TASKS)
        assert OffAndOn.resets == ("t1", "t2", "t3", "t4", "t5")
        assert all(t.valid for t in trajectories)
        assert len([t for t in ledger.trajectories("failed-") if not t.valid]) == 3


async def test_failures_among_successes_do_not_end_it(monkeypatch):
    monkeypatch.setattr(OffAndOn, "gone", ("t1", "t2", "t4", "t5"))
    trajectories = await manager_of(max_failures_in_a_row=3).collect(TASKS)
    assert [t.valid for t in trajectories] == [True, False, False, True, False, False]


async def test_without_a_bound_all_may_fail(monkeypatch):
    monkeypatch.setattr(OffAndOn, "gone", tuple(t.id for t in TASKS))
    assert not any(t.valid for t in await manager_of(max_failures_in_a_row=None).collect(TASKS))


class Hanging(ScriptedPolicy):
    async def generate(self, request):
        await asyncio.sleep(500)
        return await super().generate(request)


def test_a_run_in_which_nothing_moves_says_what_everybody_waits_for(caplog):
    manager = make_manager(
        Hanging([say("submit")], name="slow"),
        environment=Counter,
        reward=TargetReached(),
        label="run",
        stall_warning_s=100.0,
    )
    with caplog.at_level(logging.WARNING, "agentgym.rollout"):
        FakeClock().run(manager.collect([task("a"), task("b")]))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3  # after 100, 200 and 400 s
    assert messages[0] == ("No episode has moved for 100 s: 2 are asking the policy 'slow' (such as run/a#0).")


def test_what_most_wait_for_comes_first():
    state = {f"run/{i}": (i, f"asking the policy 'p' for turn {i}") for i in range(3)}
    state["run/x"] = (0, "making the environment")
    assert standstill(state, 61.0) == (
        "No episode has moved for 61 s: 3 are asking the policy 'p' (such as run/0), "
        "1 is making the environment (such as run/x)."
    )


def test_a_run_that_moves_is_not_warned_about(caplog):
    manager = make_manager(
        ScriptedPolicy([say("slow_add"), say("slow_add"), say("submit")]),
        environment=lambda: Counter(latency_s=60.0),
        reward=TargetReached(),
        stall_warning_s=100.0,
    )
    with caplog.at_level(logging.WARNING, "agentgym.rollout"):
        FakeClock().run(manager.collect([task("a")]))
    assert not caplog.records


class Sampling(Hanging):
    """Takes 500 s for a message, and samples a token each 50 s."""

    @property
    def running(self):
        return [int(asyncio.get_running_loop().time() // 50)]


def test_a_policy_that_samples_a_long_message_is_no_standstill(caplog):
    policy = Sampling([say("submit")])
    manager = make_manager(policy, environment=Counter, reward=TargetReached(), stall_warning_s=100.0)
    with caplog.at_level(logging.WARNING, "agentgym.rollout"):
        FakeClock().run(manager.collect([task("a")]))
    assert not caplog.records


def test_runs_that_share_a_watch_stand_still_only_if_none_of_them_moves(caplog):
    """One hangs for 500 s; the other moves in the first 240 s of them, so warnings count from there."""

    async def scenario() -> None:
        watch, slots = StandstillWatch(100.0), Slots(2)
        hanging = make_manager(Hanging([say("submit")], name="slow"), environment=Counter, reward=TargetReached())
        moving = make_manager(
            ScriptedPolicy([say("slow_add")] * 4 + [say("submit")]),
            environment=lambda: Counter(latency_s=60.0),
            reward=TargetReached(),
        )

        async def play(manager, label) -> None:
            async for _ in manager.stream([task("a")], 1, label=label, slots=slots, watch=watch):
                pass

        await asyncio.gather(play(hanging, "step-1"), play(moving, "step-2"))

    with caplog.at_level(logging.WARNING, "agentgym.rollout"):
        FakeClock().run(scenario())
    messages = [record.getMessage() for record in caplog.records]
    assert messages[:1] == ["No episode has moved for 100 s: 1 is asking the policy 'slow' (such as step-1/a#0)."]
    assert len(messages) == 2  # 100 and 200 s after the last one moved, not three as of a run that hangs alone
