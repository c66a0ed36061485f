"""Branches and replays: the turns before a fork come again exactly, and an environment that has changed is noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scripted_episodes import counting, make_manager, play, say

from agentgym import Budgets, Checkpoint, Environment, EpisodeManager, ScriptedPolicy, Task, Trajectory, tool
from agentgym.credit import Group, estimator
from agentgym.messages import Call, Message, StopReason
from agentgym.rollout import Fork
from agentgym.testing import ByteRenderer, Counter, CounterWithState, TargetReached
from agentgym.trajectory import ForkPoint


def manager(script: Any, environment: Any = CounterWithState, *, exact: bool = True, **options: Any) -> EpisodeManager:
    policy = ScriptedPolicy(script, ByteRenderer() if exact else None)
    return make_manager(policy, environment=environment, reward=TargetReached(), label="branch", **options)


async def branches(script: Any, fork: Fork, group_size: int = 1, **options: Any) -> list[Trajectory]:
    return [branch async for branch in manager(script, **options).branch([fork], group_size)]


async def test_a_branch_repeats_its_prefix_token_by_token_and_then_goes_its_own_way():
    """The record counts to 2 and submits; the branch leaves before the second addition and submits at once."""
    record = await play(counting(2), environment=CounterWithState)
    submit_at_once = [None, say("submit")]
    (other,) = await branches(submit_at_once, Fork(record, 1))
    assert [turn.calls[0].name for turn in other.turns] == ["add", "submit"]
    assert other.turns[0].token_ids == record.turns[0].token_ids
    assert other.turns[0].observation_ids == record.turns[0].observation_ids
    assert other.prompt_ids == record.prompt_ids
    assert (record.outcome["success"], other.outcome["success"]) == (1, 0)
    assert other.provenance.branch == ForkPoint(record.id, 1)


async def test_every_fork_of_a_trajectory_can_be_continued_by_the_same_script():
    record = await play(counting(2), environment=CounterWithState)
    for turn in range(len(record.turns) + 1):
        (other,) = await branches(counting(2), Fork(record, turn))
        assert other.valid, other.error
        assert [t.message for t in other.turns] == [t.message for t in record.turns]
        assert other.outcome == record.outcome


async def test_samples_of_a_fork_have_ids_and_sample_numbers_of_their_own():
    record = await play(counting(2), environment=CounterWithState)
    trajectories = await branches(counting(2), Fork(record, 1), group_size=3)
    assert len({branch.id for branch in trajectories}) == 3
    assert {branch.sample for branch in trajectories} == {0, 1, 2}
    assert all(branch.seed == record.seed for branch in trajectories)


async def test_a_policy_without_tokens_can_go_on_from_a_record_that_has_them():
    record = await play(counting(2), environment=CounterWithState)
    (other,) = await branches([None, say("submit")], Fork(record, 1), exact=False)
    assert other.valid
    assert other.turns[0].token_ids == []


async def test_a_record_without_tokens_is_encoded_for_a_policy_that_reads_them():
    record = await play(counting(2), environment=CounterWithState, exact=False)
    (other,) = await branches([None, say("submit")], Fork(record, 1))
    assert other.valid
    assert other.turns[0].token_ids == ByteRenderer().encode(record.turns[0].message)


class Counting(CounterWithState):
    """A counter that may be asked how many additions were run in any instance of it."""

    additions = 0

    @tool(inline=True)
    def add(self, amount: int = 1) -> str:
        """Add to the counter and read it."""
        Counting.additions += 1
        self.value += amount
        return str(self.value)


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
async def test_a_branch_goes_on_from_a_checkpoint_without_running_a_call_again(turn: int):
    """Counting to 4 takes five turns. The branch repeats `turn` of them; its additions are the other ones."""
    task = Task("t", "test/counter-v1", "Count.", parameters={"target": 4}, truth=4)
    checkpoints: Any = {("t", 0, turn): None, ("t", 0, 99): None}
    [record] = await manager(counting(4), Counting).collect([task], checkpoints=checkpoints)
    assert checkpoints["t", 0, 99] is None
    checkpoint = checkpoints["t", 0, turn]
    assert checkpoint.data == {"value": turn}
    Counting.additions = 0
    (other,) = await branches(counting(4), Fork(record, turn, checkpoint), environment=Counting)
    assert Counting.additions == 4 - turn
    assert other.valid, other.error
    assert other.outcome == record.outcome == {"success": 1}
    assert other.provenance.environment == record.provenance.environment
    assert [t.message for t in other.turns] == [t.message for t in record.turns]
    assert [t.state_key for t in other.turns] == [t.state_key for t in record.turns]
    assert [t.token_ids for t in other.turns] == [t.token_ids for t in record.turns]
    assert [[r.content for r in t.results] for t in other.turns] == [
        [r.content for r in t.results] for t in record.turns
    ]


async def test_a_branch_from_a_wrong_checkpoint_is_found_out():
    """The environment is put back to another state than the one the record has at the fork."""
    record = await play(counting(3), environment=CounterWithState, target=3)
    (other,) = await branches(counting(3), Fork(record, 2, Checkpoint({"value": 7})))
    assert not other.valid
    assert "differs in its state" in (other.error or "")


async def test_calls_over_the_budget_of_the_record_are_over_that_of_the_branch():
    """Of two calls at once only one was run; the next turn's call must not get the answer meant for the second."""
    task = Task("t", "test/counter-v1", "Count.", parameters={"target": 1}, truth=1)
    script = [Message("assistant", "", (Call("add"), Call("refuse"))), say("submit"), say("submit")]
    checkpoints: Any = {("t", 0, 1): None}
    manager_of_one_call = manager(script, Counting, budgets=Budgets(max_calls=1))
    [record] = await manager_of_one_call.collect([task], checkpoints=checkpoints)
    fork = Fork(record, 1, checkpoints["t", 0, 1])
    (other,) = await branches(script, fork, environment=Counting, budgets=Budgets(max_calls=1))
    assert [[r.status for r in t.results] for t in other.turns] == [[r.status for r in t.results] for t in record.turns]


class Restless(Counter):
    """Answers every addition with a number that no other run of it gives."""

    runs = 0

    @tool(inline=True)
    def add(self, amount: int = 1) -> str:
        """Add to the counter and read it."""
        Restless.runs += 1
        return f"{Restless.runs}"


async def test_an_environment_that_answers_otherwise_makes_the_branch_fail_before_anything_is_sampled():
    record = await play(counting(2), environment=Restless)
    conversation_lengths: list[int] = []

    def script(messages: Any) -> Any:
        conversation_lengths.append(len(messages))
        return say("submit")

    (other,) = await branches(script, Fork(record, 2), environment=Restless)
    assert not other.valid
    assert other.stop_reason is StopReason.INFRA_ERROR
    assert "ReplayDiverged" in (other.error or "")
    assert "Turn 0 differs in its result" in (other.error or "")
    assert not conversation_lengths


class Drifting(Counter):
    """Says the same every time, but its hidden state differs from run to run."""

    runs = 0

    def __init__(self) -> None:
        super().__init__()
        Drifting.runs += 1

    async def state_key(self) -> str | None:
        return f"{self.value}-{Drifting.runs if self.value else 0}"


async def test_a_hidden_state_that_differs_makes_the_branch_fail_too():
    record = await play(counting(2), environment=Drifting)
    (other,) = await branches(counting(2), Fork(record, 2), environment=Drifting)
    assert not other.valid
    assert "state" in (other.error or "")


async def test_a_replay_of_an_environment_that_holds_still_finds_nothing():
    record = await play(counting(3), environment=CounterWithState, target=3)
    assert await manager([], exact=False).replay(record) is None


async def test_a_replay_of_an_episode_that_a_budget_ended_finds_nothing():
    record = await play(counting(3), environment=CounterWithState, target=3, budgets=Budgets(max_turns=2))
    assert record.stop_reason is StopReason.MAX_TURNS
    assert await manager([], exact=False).replay(record) is None


async def test_a_replay_names_the_first_turn_that_differs():
    record = await play(counting(2), environment=Restless)
    divergence = await manager([], environment=Restless, exact=False).replay(record)
    assert divergence is not None
    assert (divergence.turn, divergence.what) == (0, "result")


class Stubborn(Counter):
    """Does not let itself be finished."""

    @tool(inline=True)
    def submit(self) -> str:
        """Hand in the counter as it stands."""
        return f"submitted {self.value}"


async def test_a_replay_says_when_the_episode_no_longer_ends():
    record = await play(counting(1), environment=Counter, target=1)
    divergence = await manager([], environment=Stubborn, exact=False).replay(record)
    assert divergence is not None
    assert divergence.what == "ending"


class Greeting(Environment):
    """Opens each run with another sentence."""

    runs = 0

    async def reset(self, task: Any, *, seed: int) -> Any:
        Greeting.runs += 1
        return [*task.opening()[:-1], type(task.opening()[-1])("user", f"Hello {Greeting.runs}")]

    @tool(final=True, inline=True)
    def submit(self) -> str:
        """End."""
        return "done"


async def test_a_replay_notices_another_opening():
    record = await play([say("submit")], environment=Greeting)
    divergence = await manager([], environment=Greeting, exact=False).replay(record)
    assert divergence is not None
    assert (divergence.turn, divergence.what) == (-1, "opening")


async def test_a_fork_lies_within_its_trajectory():
    record = await play(counting(2))
    with pytest.raises(ValueError, match="has 3 turns"):
        Fork(record, 4)


async def test_branches_share_the_labels_of_the_turns_they_repeat():
    record = await play(counting(2), environment=CounterWithState)
    (other,) = await branches([None, say("submit")], Fork(record, 1))
    (branch_of_branch,) = await branches(counting(2), Fork(other, 1))
    labels = Fork.tree_labels([record, other, branch_of_branch])
    assert labels[0][0] == labels[1][0] == labels[2][0]
    assert len({labels[0][1], labels[1][1], labels[2][1]}) == 3
    group = Group.from_arrays(outcomes=[1, 0, 1], branches=labels)
    assert group.branches is not None
    assert np.isfinite(np.concatenate(estimator("rloo")(group))).all()


async def test_branches_of_many_forks_run_beside_each_other_and_each_ends():
    records = [await play(counting(n), environment=CounterWithState, target=n) for n in (1, 2, 3)]
    forks = [Fork(record, 1) for record in records]
    playing = manager(lambda messages: say("submit"), concurrency=2)
    trajectories = [branch async for branch in playing.branch(forks, group_size=4)]
    assert len(trajectories) == 12
    assert all(branch.valid for branch in trajectories)
