"""A buffer of prefixes: what the policy sometimes solves is played from there; what is solved or hopeless no more."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym import Call, Environment, Message, Policy, Reward, RolloutConfig, Task, tool
from agentgym.errors import AgentGymError
from agentgym.methods.supply.prefix_buffer import hash_of_words
from agentgym.policy.contract import Reply, Request
from agentgym.rollout.rollouts import Rollouts
from agentgym.storage.ledger import Ledger
from agentgym.training.gatherers import StepRequest, make_gatherer, play_groups

TURNS, DECIDES, GROUP = 4, 1, 8
TASKS = [Task("t", "test/choices-v1", "Choose."), Task("u", "test/choices-v1", "Choose, too.")]


class Choices(Environment):
    """Four choices; in memory: nothing is isolated."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self._count = 0
        return task.opening()

    @property
    def ended(self) -> bool:
        return self._count == TURNS

    @tool(inline=True)
    def choose(self, option: int) -> str:
        """Choose."""
        self._count += 1
        return "Chosen."


class SecondDecides(Reward):
    """1 where the second choice was 0."""

    def outcome(self, episode):
        chosen = [turn.calls[0].arguments["option"] for turn in episode.turns]
        return {"success": float(len(chosen) == TURNS and chosen[DECIDES] == 0)}


class TossesOnce(Policy):
    """Chooses 0, except in the turn that decides, where it tosses a coin."""

    name = "tosses"

    async def generate(self, request: Request) -> Reply:
        option = int(np.random.default_rng(request.sampling.seed).integers(2)) if request.turn == DECIDES else 0
        return Reply(Message("assistant", "", (Call("choose", {"option": option}),)))


def gathered(rollouts: Rollouts, gather, first: int, steps: int) -> list[list]:
    requests = (
        StepRequest(rollouts, TossesOnce(), TASKS, f"train-{n:06d}", GROUP) for n in range(first, first + steps)
    )
    return [gather(request) for request in requests]


@pytest.fixture
def rollouts(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with Rollouts(RolloutConfig(environment=Choices, reward=SecondDecides()), ledger=ledger) as created:
        yield created


def of(gather) -> list[tuple[int, bool]]:
    """How many turns each prefix has, and whether it is still drawn."""
    prefixes = gather.wrappers[0].prefixes.values()
    return sorted((prefix.turns, prefix.priority > 0) for prefix in prefixes)


def test_solved_and_hopeless_prefixes_are_played_once_and_the_one_that_decides_stays(rollouts):
    gather = make_gatherer(play_groups, ["prefix_buffer(share=0.7)"])
    history = gathered(rollouts, gather, 0, 25)
    assert of(gather) == [(1, True)] * 2 + [(2, False)] * 4 + [(3, False)] * 4, "of either task"
    begun = [group for groups in history for group in groups if group.untrained_turns]
    later = [group for group in begun if {*group.untrained_turns.values()} != {DECIDES}]
    assert len(later) == 8, "each solved or hopeless prefix is played once"
    assert {group.differs for group in later} == {False}
    assert len(begun) - len(later) > 8, "the one that decides is played further"
    for groups in history:
        assert [len(group.trained) for group in groups] == [GROUP] * 2
    for group in begun:
        assert group.untrained_turns.keys() == {t.id for t in group.trained}
        (turn,) = {t.provenance.branch.turn for t in group.trained}
        assert set(group.untrained_turns.values()) == {turn}
        assert len({hash_of_words(t, turn) for t in group.trained}) == 1


def test_the_least_learnable_are_forgotten_first(rollouts):
    gather = make_gatherer(play_groups, ["prefix_buffer(share=0.0, capacity=11)"])
    gather.wrappers[0].load({"prefixes": [["former", 1, 1, 0.3], ["former", 2, 2, 0.0], ["former", 3, 3, 0.1]]})
    (groups,) = gathered(rollouts, gather, 0, 1)
    assert all(group.differs for group in groups)
    assert of(gather) == [(1, True)] * 3 + [(2, True)] * 4 + [(3, True)] * 4, "five of each task, and the best before"


def test_it_goes_on_from_a_checkpoint_as_without(rollouts, tmp_path):
    gather = make_gatherer(play_groups, ["prefix_buffer"])
    gathered(rollouts, gather, 0, 6)
    gather.save(tmp_path)
    resumed = make_gatherer(play_groups, ["prefix_buffer"])
    resumed.restore(tmp_path)
    first, second = gathered(rollouts, gather, 6, 4), gathered(rollouts, resumed, 6, 4)
    assert any(group.untrained_turns for groups in first for group in groups)
    ids = [[[t.id for t in group.trained] for groups in history for group in groups] for history in (first, second)]
    assert ids[0] == ids[1]
    assert resumed.wrappers[0].state() == gather.wrappers[0].state()


def test_without_a_ledger_the_remedy_is_named():
    gather = make_gatherer(play_groups, ["prefix_buffer(share=1.0)"])
    with (
        Rollouts(RolloutConfig(environment=Choices, reward=SecondDecides())) as rollouts,
        pytest.raises(AgentGymError, match=r"prefix_buffer cannot read the episode .* keeps no ledger"),
    ):
        gathered(rollouts, gather, 0, 4)
