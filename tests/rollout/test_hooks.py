"""Episode hooks: when each is called, what it may decide, what the record keeps, and that a package can add one.

A turn, in order: before_turn, the policy, the calls, the rewards, the state, after_turn. Stop reasons go from one hook
to the next. After the last turn comes after_episode, and then the outcome is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from scripted_episodes import counting, make_manager, play, say, task

from agentgym import Budgets, Message, ScriptedPolicy, registry
from agentgym.errors import UnknownNameError
from agentgym.evaluation.rescore import rescore
from agentgym.messages import StopReason
from agentgym.methods.attempts import Attempts
from agentgym.methods.stop_rules import Hopeless, InvalidCalls
from agentgym.rollout import EpisodeHandle, EpisodeHook, Fork, Judge, TurnOutcome, WrappedJudge
from agentgym.storage import Ledger
from agentgym.testing import ByteRenderer, Counter, CounterWithState, TargetReached

ADD, SUBMIT = say(("add", {"amount": 1})), say("submit")


@dataclass(frozen=True)
class Reminder(EpisodeHook):
    """A hook as a user's package has it: says how many turns are left, every `every` turns."""

    name: ClassVar[str] = "reminder"

    every: int = 2

    async def after_turn(self, episode, turn, stop):
        if stop is not None or len(episode.turns) % self.every:
            return TurnOutcome(stop)
        return TurnOutcome(messages=[Message("user", f"{episode.turns_left} turns are left.")])


@dataclass(frozen=True)
class Watch(EpisodeHook):
    """Notes when it was called, and ends the episode with `end` after turn `at`."""

    notes: list
    at: int = 100
    end: StopReason = StopReason.ENVIRONMENT

    async def before_turn(self, episode):
        self.notes.append(("before", len(episode.turns)))

    async def after_turn(self, episode, turn, stop):
        self.notes.append(("after", turn.index, stop, dict(turn.rewards), episode.state.state_key))
        return TurnOutcome(self.end if turn.index == self.at else stop)

    async def after_episode(self, episode):
        self.notes.append(("end", episode.trajectory.stop_reason, dict(episode.trajectory.outcome)))


@pytest.fixture
def reminder(monkeypatch):
    monkeypatch.setitem(registry._registered["episode_hooks"], "reminder", Reminder)


async def test_each_hook_is_asked_before_and_after_each_turn_and_at_the_end():
    class Step(TargetReached):
        def turn(self, turn, episode):
            return {"step": 1.0}

    notes = []
    await play(counting(1), target=1, environment=CounterWithState, reward=Step(), hooks=(Watch(notes),))
    key = notes[1][4]
    assert notes == [
        ("before", 0),
        ("after", 0, None, {"step": 1.0}, key),
        ("before", 1),
        ("after", 1, StopReason.ANSWERED, {"step": 1.0}, key),
        ("end", StopReason.ANSWERED, {}),
    ], "the turn is judged and the state read before a hook looks; the outcome is judged after all hooks"
    assert key is not None


async def test_what_a_hook_says_is_read_by_the_agent_and_kept_in_the_record(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    episode = await play(counting(3), target=3, hooks=(Reminder(every=2),), budgets=Budgets(max_turns=9), ledger=ledger)
    assert [[reply.text for reply in turn.replies] for turn in episode.turns] == [[], ["7 turns are left."], [], []]
    second = episode.turns[1]
    read = [*(result.message() for result in second.results), *second.replies]
    assert second.observation_ids == ByteRenderer().observation(read)
    recorded = ledger.load(episode.id)
    ledger.close()
    assert recorded == episode
    assert recorded.provenance.hooks == {"reminder": {"every": 2}}


async def test_a_hook_may_end_the_episode_and_the_next_one_is_told():
    notes, first = [], Watch([], at=1)
    episode = await play([ADD] * 4, hooks=(first, Watch(notes)))
    assert (episode.stop_reason, len(episode.turns)) == (StopReason.ENVIRONMENT, 2)
    assert notes[3][2] is StopReason.ENVIRONMENT
    assert episode.turns[-1].observation_ids == []


async def test_stop_rules_come_before_other_hooks_and_attempts_after_them():
    notes = []
    script = [say("wish"), say("wish"), *counting(2)]
    rules = (InvalidCalls(turns=2),)
    episode = await play(script, stop_if=rules, hooks=(Watch(notes),), attempts=Attempts(feedback="none"))
    assert [entry[2] for entry in notes if entry[0] == "after"] == [
        None,
        StopReason.HOPELESS,
        None,
        None,
        StopReason.ANSWERED,
    ]
    assert [entry[1] for entry in notes if entry[0] == "before"] == [0, 1, 0, 1, 2], "an attempt is looked at by itself"
    assert (episode.stop_reason, episode.outcome["fixed"]) == (StopReason.ANSWERED, 1.0)


async def test_a_hook_may_continue_an_episode_in_a_fresh_environment():
    class OnceMore(EpisodeHook):
        async def after_turn(self, episode: EpisodeHandle, turn, stop):
            if stop is None or episode.start:
                return TurnOutcome(stop)
            return TurnOutcome(messages=[Message("user", "Once more.")], renew=True)

    class Opened(Counter):
        opened = 0

        def __init__(self):
            Opened.opened += 1

    episode = await play([ADD, SUBMIT, ADD, ADD, SUBMIT], environment=Opened, hooks=(OnceMore(),))
    assert [result.content for turn in episode.turns for result in turn.results][2:4] == ["1", "2"]
    assert [reply.text for reply in episode.turns[1].replies] == ["Once more."]
    assert (Opened.opened, episode.success) == (2, 1.0)


async def test_a_hook_that_remembers_is_made_anew_for_each_episode():
    class Counting(EpisodeHook):
        def __init__(self):
            self.turns = 0

        def for_episode(self):
            return Counting()

        async def after_turn(self, episode, turn, stop):
            self.turns += 1
            return TurnOutcome(StopReason.ENVIRONMENT if self.turns == 2 else stop)

    manager = make_manager(ScriptedPolicy([ADD] * 9), environment=Counter, hooks=(Counting(),))
    episodes = await manager.collect([task()], 3)
    assert [len(episode.turns) for episode in episodes] == [2, 2, 2]


async def test_a_hook_may_change_how_an_episode_is_judged():
    class Halved(WrappedJudge):
        async def judge_end(self, trajectory):
            changed = await super().judge_end(trajectory)
            trajectory.outcome = self.merge(trajectory.outcome, {"half": 0.5})
            return changed

    class Halving(EpisodeHook):
        weights = {"half": 2.0}

        def wrap_judge(self, judge: Judge) -> Judge:
            return Halved(judge)

    episode = await play(counting(2), hooks=(Halving(),))
    assert (episode.outcome, episode.outcome_reward) == ({"success": 1.0, "half": 0.5}, 2.0)


async def test_a_replay_and_a_branch_use_the_hooks_of_the_record(reminder):
    record = await play(counting(3), target=3, hooks=(Reminder(every=1),))
    hooks = (registry.load("episode_hooks", "reminder")(**record.provenance.hooks["reminder"]),)
    policy = ScriptedPolicy([turn.message for turn in record.turns], ByteRenderer())
    manager = make_manager(policy, environment=Counter, reward=TargetReached(), hooks=hooks)
    assert await manager.replay(record) is None
    [branch] = [episode async for episode in manager.branch([Fork(record, 2)], 1)]
    assert (branch.error, branch.turns[0].replies) == (None, record.turns[0].replies)
    without = make_manager(policy, environment=Counter, reward=TargetReached())
    assert (await without.replay(record)).what == "result"
    [rescored] = await rescore([record], TargetReached())
    assert rescored.outcome == record.outcome


async def test_a_recorded_hook_that_is_not_installed_is_named():
    record = await play(counting(1), target=1, hooks=(Reminder(),))
    with pytest.raises(UnknownNameError, match="reminder"):
        await rescore([record], TargetReached())


async def test_a_hook_that_fails_fails_the_episode_and_is_named():
    class Broken(EpisodeHook):
        async def after_turn(self, episode, turn, stop):
            raise ZeroDivisionError("of the hook")

    episode = await play(counting(1), hooks=(Broken(), Hopeless()), budgets=Budgets(infra_retries=0))
    assert not episode.valid
    assert "ZeroDivisionError: of the hook at tests" in episode.error
