"""check_reward passes a sound reward and names the fault of every broken one."""

from __future__ import annotations

import math
import random

import pytest
from breaches import breach
from shelf import Shelf, SumIsRight, shelf_oracle, shelf_tasks

from agentgym import EpisodeManager, Reward, RolloutConfig, ScriptedPolicy
from agentgym.errors import JudgeError
from agentgym.testing import check_reward


class Solved(SumIsRight):
    """`success` where the answer is the truth; refuses a task without one."""

    def outcome(self, episode):
        if not isinstance(episode.task.truth, int):
            raise JudgeError("The task has no truth.")
        answers = [c.arguments.get("total") for t in episode.turns for c in t.calls if c.name == "answer"]
        return {"success": float(bool(answers) and answers[0] == episode.task.truth)}


async def solved_episodes():
    manager = EpisodeManager(
        lambda task: ScriptedPolicy(shelf_oracle(task)), RolloutConfig(environment=Shelf, reward=SumIsRight())
    )
    return await manager.collect(shelf_tasks()[:2])


async def test_a_sound_reward_passes():
    await check_reward(Solved(), await solved_episodes())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"success": math.nan}, "nan for the component 'success'"),
        ({"success": math.inf}, "inf for the component 'success'"),
        ({"success": "yes"}, "'yes' for the component 'success'"),
        (1.0, "but a reward must return a dict of components"),
        (None, "but a reward must return a dict of components"),
        ({3: 1.0}, "named 3"),
    ],
)
async def test_what_is_no_reward_is_caught(answer, says):
    class Wrong(Reward):
        """Returns what it was told."""

        def outcome(self, episode):
            return answer

    with breach(says):
        await check_reward(Wrong(), await solved_episodes())


async def test_a_judge_that_crashes_on_an_episode_without_turns_is_caught():
    class Fragile(Reward):
        """Looks at the last turn."""

        def outcome(self, episode):
            return {"success": float(episode.turns[-1].results[-1].final)}

    with breach("IndexError", "raises JudgeError"):
        await check_reward(Fragile())


async def test_a_judge_that_rolls_dice_is_caught():
    class Moody(Reward):
        """Depends on the day."""

        def outcome(self, episode):
            return {"success": random.random()}

    with breach("twice gave"):
        await check_reward(Moody())


async def test_a_judge_that_edits_the_episode_is_caught():
    class Editor(Reward):
        """Writes into the record."""

        def outcome(self, episode):
            episode.outcome["success"] = 1.0
            return {"success": 1.0}

    with breach("changed the episode"):
        await check_reward(Editor())


async def test_a_weight_that_is_no_number_is_caught():
    class Weightless(Reward):
        """Weighs with NaN."""

        weights = {"success": math.nan}

    with breach("weight of 'success' is nan"):
        await check_reward(Weightless())
