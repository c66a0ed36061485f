"""The training part `adapt`, label-free adaptation: trains on tasks without their truth, judged by the votes of each
group.

Sources: TTRL, Zuo et al. 2025, arXiv:2504.16084. With the reward `region_votes` it is GUI-RCPO, with `co_reward`
    Co-Reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from typing_extensions import override

from agentgym import CreditError, RecipeError, Reward, Task, TaskSet, UnknownNameError
from agentgym.credit import load_named_part
from agentgym.reward import RewardStage
from agentgym.task import Origin
from agentgym.training import TrainingPart, TrainingPlan

ADAPT = "adapt"
"""The generator of tasks without truth, and the prefix of their ids."""


class Adapt(TrainingPart):
    """Trains on tasks without truth and hints, judged by the votes of each group. All later measurements say so.

    Args:
        split: the split whose tasks are trained on: `train`, or `held_out`, where the same tasks are then trained on
            and measured: such a measurement says nothing about other tasks. Every later evaluation of the run names the
            split.
        reward: a registered reward that judges only whole groups, for example "majority_vote(compare='maths')" or
            "region_votes".
    """

    label = "[train.parts.adapt]"

    def __init__(self, *, split: Literal["train", "held_out"] = "train", reward: str = "majority_vote") -> None:
        self._split, self._reward = split, reward

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        yield from super().conflicts(plan)
        train = plan.train
        if train.tasks_of is not None:
            yield (
                f"{self.label} and train.tasks_of = {train.tasks_of!r} both choose the tasks to train on. Leave one of "
                "them out."
            )
        if train.is_streamed:
            yield (
                f"{self.label} lets another reward judge than validations do, which does not work with "
                f"{train.stream_key}. Leave one of them out."
            )

    @override
    def training_tasks(self, task_set: TaskSet) -> TaskSet:
        """Return a task set whose training tasks are the tasks of `split` without their truth.

        Its validation tasks stay as they are. The set has no scripted players, because they know more than the agent.
        Raises: RecipeError if the split is empty.
        """
        unlabelled = [_unlabelled(task) for task in task_set[self._split]]
        if not unlabelled:
            raise RecipeError(
                f"{self.label} split = {self._split!r}: {task_set.name} has no tasks in this split. Choose one that "
                "has tasks."
            )
        return TaskSet(task_set.name, {"train": unlabelled, "validation": task_set["validation"]})

    @override
    def adapts_by(self) -> str:
        return self._reward

    @override
    def rollout_changes(self) -> Mapping[str, Any]:
        return {"reward": self._make_reward()}

    def _make_reward(self) -> Reward:
        """Create the reward. Raises: RecipeError if it judges single episodes, or cannot be created."""
        where = f"{self.label} reward = {self._reward!r}"
        try:
            reward: Reward = load_named_part("rewards", self._reward)()
        except (UnknownNameError, CreditError, TypeError, ValueError) as error:
            raise RecipeError(f"The reward of {where} cannot be made: {error}") from error
        others = [stage for stage in get_args(RewardStage) if stage not in ("group", "feedback")]
        if not reward.has_stage("group") or any(map(reward.has_stage, others)):
            raise RecipeError(
                f"{where} names a reward that judges each episode by the task's truth, which is not available here. "
                "Choose a reward that only compares the episodes of a group, such as majority_vote or region_votes."
            )
        return reward


def _unlabelled(task: Task) -> Task:
    """Return the task without its truth, except `pair`, which tasks that ask the same question share."""
    pair = task.pair
    truth = None if pair is None else {"pair": pair}
    return replace(task, id=f"{ADAPT}/{task.id}", truth=truth, hints=(), split="train", origin=Origin(ADAPT, task.id))
