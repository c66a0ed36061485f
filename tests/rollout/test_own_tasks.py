"""Each episode has a task of its own: what an environment or a reward takes from it, it takes from no other."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from scripted_episodes import counting, make_manager

from agentgym import ScriptedPolicy, Task, Trajectory
from agentgym.errors import ConformanceError
from agentgym.messages import Message
from agentgym.reward import Components
from agentgym.testing import ByteRenderer, Counter, TargetReached, check_environment


class UsesUp(Counter):
    """Takes from its task's parameters what it has dealt out."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        parameters: Any = task.parameters
        parameters["nested"]["cards"].pop()
        parameters.pop("target")
        return await super().reset(task, seed=seed)


class UsesUpTruth(TargetReached):
    def outcome(self, episode: Trajectory) -> Components:
        truth: Any = episode.task.truth
        return {"success": float(truth.pop("answer") == 2)}


def a_task(**fields: Any) -> Task:
    parameters = {"target": 2, "nested": {"cards": [1]}}
    return Task("t", "test/counter-v1", "Count to 2.", parameters=parameters, truth={"answer": 2}, **fields)


async def test_an_environment_and_a_reward_that_use_up_their_task_change_no_other_episode_nor_the_callers_task():
    manager = make_manager(
        ScriptedPolicy(counting(2), ByteRenderer()), environment=UsesUp, reward=UsesUpTruth(), max_failures_in_a_row=1
    )
    task = a_task()
    trajectories = await manager.collect([task], group_size=4)
    assert [trajectory.success for trajectory in trajectories] == [1.0] * 4
    assert task == a_task()
    assert all(trajectory.task.parameters == task.parameters for trajectory in trajectories), "as it was handed out"


async def test_a_replay_resets_with_the_task_as_it_was():
    manager = make_manager(ScriptedPolicy(counting(2), ByteRenderer()), environment=UsesUp, reward=TargetReached())
    (trajectory,) = await manager.collect([a_task()])
    assert await manager.replay(trajectory) is None
    assert await manager.replay(trajectory) is None


async def test_the_check_of_an_environment_that_uses_up_its_task_names_it_and_goes_on():
    with pytest.raises(ConformanceError, match=r"in 1 place.*\n.*was changed by playing it"):
        await check_environment(UsesUp, [replace(a_task(), truth=7)], reward=TargetReached())


def test_a_copy_has_containers_of_its_own_and_shares_what_cannot_change():
    marker = object()
    parameters = MappingProxyType({"list": [[1], (2, [3])], "set": {4}, "object": marker, "text": "x"})
    copied: Any = Task("t", "e", parameters=parameters).public().parameters
    assert copied == dict(parameters)
    copied["list"][0].append(2)
    copied["list"][1][1].append(4)
    copied["set"].add(5)
    assert parameters["list"] == [[1], (2, [3])]
    assert parameters["set"] == {4}
    assert copied["object"] is marker


class UsesUpOptions(Counter):
    def __init__(self, cards: list[int]) -> None:
        super().__init__()
        self.cards = cards

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.cards.pop()
        return await super().reset(task, seed=seed)


async def test_an_environment_that_uses_up_its_options_changes_them_for_no_other_episode():
    options = {"cards": [1]}
    manager = make_manager(
        ScriptedPolicy(counting(2), ByteRenderer()),
        environment=UsesUpOptions,
        environment_options=options,
        reward=TargetReached(),
        max_failures_in_a_row=1,
    )
    task = Task("t", "test/counter-v1", "Count to 2.", parameters={"target": 2}, truth=2)
    assert [each.success for each in await manager.collect([task], group_size=3)] == [1.0] * 3
    assert options == {"cards": [1]}
