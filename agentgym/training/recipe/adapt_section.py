"""The recipe's [train.adapt]: tasks that are trained on without their truth, judged by the votes of each group."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from agentgym import registry
from agentgym.credit.named_parts import parse_part
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.evaluation.record import manifest_of
from agentgym.options import Section
from agentgym.reward import RewardStage
from agentgym.reward.contract import Reward
from agentgym.task import Origin
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet

ADAPT = "adapt"
"""The generator of tasks without truth, and the prefix of their ids."""


class AdaptSection(Section):
    """Label-free adaptation: reinforcement on tasks without truth and hints, judged by the votes of their group."""

    split: Literal["train", "held_out"] = "train"
    """The split whose tasks are trained on: `train`, or `held_out`, whose tasks are then also measured. Every later
    evaluation of the run says so; with `held_out` it tells nothing about other tasks."""
    reward: str = "majority_vote"
    """A registered reward that judges only whole groups, for example "majority_vote(compare='maths')" or
    "region_votes"."""

    def tasks(self, task_set: TaskSet) -> TaskSet:
        """Return a task set whose training tasks are the tasks of the split without labels.

        Its validation tasks stay as they are. It has no scripted players, because these know more than the agent.
        Raises: RecipeError if the split is empty.
        """
        unlabelled = [_unlabelled(task) for task in task_set[self.split]]
        if not unlabelled:
            raise RecipeError(
                f"train.adapt.split = {self.split!r}: {task_set.name} has no tasks in this split. Choose one that has "
                "tasks."
            )
        return TaskSet(task_set.name, {"train": unlabelled, "validation": task_set["validation"]})

    def make_reward(self) -> Reward:
        """Make the reward. Raises: RecipeError if it judges single episodes, or cannot be made."""
        where = f"train.adapt.reward = {self.reward!r}"
        try:
            part = parse_part(self.reward)
            reward = registry.load_reward(part.name, **part.options)
        except (UnknownNameError, CreditError, TypeError, ValueError) as error:
            raise RecipeError(f"The reward of {where} cannot be made: {error}") from error
        others = [stage for stage in get_args(RewardStage) if stage not in ("group", "feedback")]
        if not reward.has_stage("group") or any(map(reward.has_stage, others)):
            raise RecipeError(
                f"{where} names a reward that judges each episode by the task's truth, which is not available here. "
                "Choose a reward that only compares the episodes of a group, such as majority_vote or region_votes."
            )
        return reward

    def describe(self, task_set: TaskSet) -> str:
        """Return the text about the adaptation in every later evaluation and in the report."""
        tasks = task_set[self.split]
        return (
            f"adapted to {len(tasks)} {self.split} tasks (manifest {manifest_of(tasks)}) without their truth, by "
            f"{self.reward}"
        )


def _unlabelled(task: Task) -> Task:
    """Return the task without its truth, but keep its `pair`, which other tasks with the same question share."""
    pair = task.pair
    truth = None if pair is None else {"pair": pair}
    return replace(task, id=f"{ADAPT}/{task.id}", truth=truth, hints=(), split="train", origin=Origin(ADAPT, task.id))
