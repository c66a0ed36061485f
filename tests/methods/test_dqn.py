"""A DQN agent over listed actions learns a corridor, from its own episodes and from those of another player."""

from __future__ import annotations

from typing import Literal

import pytest

from agentgym import Call, Environment, Message, Reward, RolloutConfig, ScriptedPolicy, Task, ToolError, tool
from agentgym.errors import PolicyError
from agentgym.methods.dqn import DqnPolicy, enumerated_calls
from agentgym.registry import register
from agentgym.rollout.budgets import Budgets
from agentgym.training import Rollouts


class Corridor(Environment):
    """Four places in a row. Three moves to the right lead from the first to the goal; to the left is nothing."""

    reward = "test_corridor"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.room = 0
        return [Message("user", "place 0")]

    @tool(inline=True)
    def move(self, direction: Literal["left", "right"]) -> str:
        """Go."""
        self.room = max(self.room + (1 if direction == "right" else -1), 0)
        return f"place {self.room}"

    @tool(final=True, inline=True)
    def stop(self) -> str:
        """Stay where you are."""
        if self.room == 0:
            raise ToolError("place 0 is no place to stay")
        return "over"


class Arrived(Reward):
    """1 for a stop at the goal."""

    def outcome(self, episode):
        stopped = episode.turns[-1].calls[-1].name == "stop"
        places = [result.message().text for turn in episode.turns[:-1] for result in turn.results]
        return {"success": float(stopped and places[-1:] == ["place 3"])}


register("test/corridor-v1", Corridor)
register("test_corridor", Arrived, kind="rewards")
TASKS = [Task("t", "test/corridor-v1", "Go.")]


@pytest.fixture
def rollouts():
    with Rollouts(RolloutConfig(budgets=Budgets(max_turns=8))) as given:
        yield given


@pytest.mark.thorough
def test_it_learns_the_values_of_listed_actions_from_its_own_episodes(rollouts):
    """Three moves and a stop: with a discount of 0.9 the first move is worth 0.9^3."""
    policy = DqnPolicy(epsilon=0.5, gamma=0.9, learning_rate=1e-2, follow=0.2)
    for step in range(6):
        policy.observe(rollouts.play(policy, TASKS, label=f"s{step}", group_size=24, record=False))
        policy.learn(120)
    (episode,) = rollouts.at_temperature(0.0).play(policy, TASKS, label="greedy", group_size=1, record=False)
    assert episode.success == 1.0
    calls = [Call("move", {"direction": "right"}), Call("move", {"direction": "left"})]
    right, left = policy.values([Message("user", "place 0")], calls)
    assert right == pytest.approx(0.9**3, abs=0.05)
    assert right > left


def test_it_learns_from_the_episodes_of_another_player(rollouts):
    script = [*[Message("assistant", "", (Call("move", {"direction": "right"}),))] * 3]
    player = ScriptedPolicy([*script, Message("assistant", "", (Call("stop", {}),))])
    policy = DqnPolicy(gamma=0.9, learning_rate=3e-3)
    policy.observe(rollouts.play(player, TASKS, label="shown", group_size=4, record=False))
    policy.learn(200)
    assert policy.values([Message("user", "place 3")], [Call("stop", {})])[0] == pytest.approx(1.0, abs=0.05)
    assert policy.version == 1


def test_only_calls_whose_parameters_list_their_values_are_listed():
    tools = [definition.schema() for definition in Corridor().tools.values()]
    calls = enumerated_calls([], tools)
    assert sorted(str(call.arguments) for call in calls) == ["{'direction': 'left'}", "{'direction': 'right'}", "{}"]
    free = {"name": "say", "parameters": {"properties": {"text": {"type": "string"}}}}
    assert enumerated_calls([], [*tools, free]) == calls
    with pytest.raises(PolicyError, match="DqnPolicy found no actions"):
        enumerated_calls([], [free])
    many = {"name": "many", "parameters": {"properties": {name: {"enum": list(range(40))} for name in "ab"}}}
    with pytest.raises(PolicyError, match="more than 1000 different calls"):
        enumerated_calls([], [many])


def test_misuse_is_said():
    with pytest.raises(PolicyError, match="DqnPolicy has observed no turns"):
        DqnPolicy().learn(1)
    with pytest.raises(PolicyError, match="epsilon = 2"):
        DqnPolicy(epsilon=2)
    with pytest.raises(PolicyError, match="no action is listed"):
        DqnPolicy().values([], [])
