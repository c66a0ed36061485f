"""Let the policy write variants of a solved task that keep its answer, and learn both to write and to solve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from typing_extensions import override

from agentgym import CreditError, EpisodesFailed, Message, StopReason, Task, TaskError, TaskSet, Trajectory
from agentgym.options import Count, Share
from agentgym.rollout import is_bug
from agentgym.task import Origin
from agentgym.training import Exclusion, TrainingPart, TrainingPlan
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest

from ..new_tasks import NewTasks
from .writing import WRITING, attempt_of, question_of, words_of, write

INSTRUCTION = (
    "A task:\n{task}\n\nHow it was solved:\n{solution}\n\nWrite another task that has the same answer. Ask for it in "
    "another way, and do not tell it. Write the words of the new task alone."
)
REWARD = "variant"
"""The component of a writer's reward."""


_OF_THE_SET = {"state_keys", "potentials", "gold_logprobs"}
"""Signals that exist only for tasks of the task set, because they need its environments or its answers."""


def given_only_for_the_set(part: TrainingPart, plan: TrainingPlan) -> str:
    """Return why signals or experts that exist only for the set's tasks are rejected; "" if none is used.

    The gatherer also trains the policy on tasks in which it writes new tasks.
    """
    needs = _OF_THE_SET & set(plan.train.make_estimator().requires)
    if not needs and plan.train.experts is None:
        return ""
    return (
        f"train.gather = {plan.train.gather} also trains on tasks in which the policy writes new tasks. These tasks "
        f"have no {', '.join(sorted(needs)) or 'episodes of experts'}. Choose another "
        f"{'estimator' if needs else 'objective, without train.experts'}, or remove {part.label} from train.gather."
    )


class Variants(GathererWrapper):
    """Lets the policy write variants of a task that it solves sometimes, with the same answer, and lets it solve them.

    A group is a parent if its mean success is in [low, high]. The policy is shown its task and a success, and writes as
    many tasks as a group has episodes. They have the parent's environment, parameters and truth. Each is then solved by
    its own group. A written task earns 1 if the mean success of this group is in [low, high] too, else 0: it is too
    easy, too hard, or now has another answer. A text earns 0 and is not played if it is empty, truncated by a budget,
    equal to a task of the set, or worded as a validation or held-out task. A task with which no environment can be
    reset earns 0 and is dropped, which the log reports; if the infrastructure fails instead, its writer counts as
    failed.

    The groups of writers and solvers replace groups with equal returns, so a step trains on as many groups as before.
    If the returns of all groups differ, nothing is written. Writers and solvers are left out of logged success, the
    sampler ignores them, and they are discarded after their step; `Task.origin` names their parent. Within a group an
    estimator's bias class holds for the written task; the mean over groups covers other tasks than the set's.

    A parent costs `group_size` writing episodes and up to `group_size` squared solving episodes.

    Args:
        low, high: bounds of the mean success of parents and of written tasks.
        parents: most parents per step.
    Source: SvS, Liang et al. 2025, arXiv:2508.14029; the bounds are the paper's for groups of 8. Written from
        descriptions, not checked against its code.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (GathererWrapper.background_play, given_only_for_the_set)

    def __init__(self, inner: Gatherer, *, low: Share = 1 / 8, high: Share = 5 / 8, parents: Count = 1) -> None:
        if low > high:
            raise CreditError(
                f"variants(low={low}, high={high}) is not valid: `low` is above `high`, so no task would be written."
            )
        super().__init__(inner)
        self._low, self._high, self._parents = low, high, parents
        self._new_tasks: NewTasks | None = None

    @override
    def read_tasks(self, task_set: TaskSet) -> None:
        # Check that some training task has words of its own and a truth.
        if not any(map(_may_be_parent, task_set["train"])):
            raise TaskError(
                f"variants: no training task of {task_set.name} has both words (`prompt` or `messages`, without "
                "images) and a `truth`, which its variants could share. Remove `variants` from train.gather."
            )
        self._new_tasks = NewTasks(task_set)

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step. Raises: CreditError if an environment does not show a task's text."""
        groups = self.inner(step)
        places = [row for row, group in enumerate(groups) if group.trained and not group.differs]
        parents = self._parents_of(groups)
        if not places or not parents:
            return groups
        unaided = replace(step, assist=None)
        tasks = [_writing_task(parent) for parent in parents.values()]
        writers = write(unaided, tasks, step.group_size, label="writing")
        solvers = self._solve(unaided, writers, parents)
        new = [*writers, *solvers]
        useful = [group for group in new if group.differs][: len(places)]
        left_out = [group for group in new if not any(group is trained for trained in useful)]
        for row, group in zip(places, useful, strict=False):
            left_out.append(groups[row])
            groups[row] = group
        return [*groups, *(GatheredGroup([], group.episodes) for group in left_out)]

    def _parents_of(self, groups: Sequence[GatheredGroup]) -> dict[str, Trajectory]:
        """Return, by task, a successful episode of each task that was solved sometimes."""
        parents: dict[str, Trajectory] = {}
        for group in groups:
            episodes = [t for t in group.trained if t.valid and t.id not in group.replayed]
            successes = [t for t in episodes if t.success_or_reward >= 1 and t.provenance.assistance is None]
            if successes and _may_be_parent(successes[0].task) and self._low <= _mean_success(episodes) <= self._high:
                parents.setdefault(successes[0].task.id, successes[0])
        return dict(list(parents.items())[: self._parents])

    def _solve(
        self, step: StepRequest, groups: Sequence[GatheredGroup], parents: Mapping[str, Trajectory]
    ) -> list[GatheredGroup]:
        """Let the policy solve each written task once, and judge the writers. Returns: the solvers' groups."""
        writers = [writer for group in groups for writer in group.trained if writer.valid]
        written = [self._variant_of(writer, parents) for writer in writers]
        tasks: dict[str, Task] = {}
        for task in written:
            if task is not None:
                tasks.setdefault(task.content_key(), task)
        solvers = dict(zip(tasks, self._play(step, list(tasks.values())), strict=False))
        for writer, task in zip(writers, written, strict=True):
            self._judge(writer, task, None if task is None else solvers.get(task.content_key()))
        if (records := step.rollouts.records) is not None:
            records.amend(writers)
        dropped = [group for group in solvers.values() if _cannot_be_reset(group)]
        if dropped:
            step.rollouts.report(
                f"{step.label}: {len(dropped)} of {len(tasks)} written tasks are dropped, because no environment can "
                f"be reset to their words. The first: {dropped[0].trained[0].error}"
            )
        return [group for group in solvers.values() if not _cannot_be_reset(group)]

    def _variant_of(self, writer: Trajectory, parents: Mapping[str, Trajectory]) -> Task | None:
        """Return the written task; None for text that is not a task."""
        assert self._new_tasks is not None and writer.task.origin is not None
        if not (text := words_of(writer)):
            return None
        parent = parents[writer.task.origin.parent].task
        task = replace(
            _in_other_words(parent, text),
            id=f"{parent.id}~{writer.sample}",
            tags=(*parent.tags, "variant"),
            hints=(),
            origin=Origin(Origin.VARIANTS, parent.id, writer.id),
        )
        return None if self._new_tasks.reason_against(task) else task

    def _play(self, step: StepRequest, tasks: Sequence[Task]) -> list[GatheredGroup]:
        """Play the written tasks. Raises: CreditError if the environment does not show their text."""
        if not tasks:
            return []
        trajectories: list[Trajectory] = []
        label, size = f"{step.label}-variants", step.group_size
        try:
            groups = GatheredGroup.split(step.play(tasks, label, size, on_trajectory=trajectories.append), size)
        except EpisodesFailed:
            return [GatheredGroup([t for t in trajectories if t.task.id == task.id]) for task in tasks]
        for episode in (episode for group in groups for episode in group.trained if episode.valid):
            words = episode.task.opening()[-1].text
            if not any(words in message.text for message in episode.opening):
                raise CreditError(
                    f"variants: {episode.task.environment} does not show the agent the words of its task, so "
                    "rewording it changes nothing. Remove `variants` from train.gather."
                )
        return groups

    def _judge(self, writer: Trajectory, task: Task | None, solvers: GatheredGroup | None) -> None:
        """Give a writer its reward; a writer whose task the infrastructure could not play counts as failed."""
        if task is None or (solvers is not None and _cannot_be_reset(solvers)):
            writer.outcome = {REWARD: 0.0}
        elif solvers is None or not (episodes := [t for t in solvers.trained if t.valid]):
            writer.stop_reason, writer.outcome = StopReason.INFRA_ERROR, {}
            writer.error = "every episode of the task that it has written failed"
        else:
            success = _mean_success(episodes)
            writer.outcome = {REWARD: float(self._low <= success <= self._high), "variant_success": success}
            writer.weights = {"variant_success": 0.0}


def _may_be_parent(task: Task) -> bool:
    """Return whether a task has text that can be reworded, and a truth that stays valid."""
    opening = task.opening()
    return (
        task.truth is not None
        and not task.is_of_one_step
        and opening[-1].role == "user"
        and bool(opening[-1].text.strip())
        and not any(message.images for message in opening)
    )


def _cannot_be_reset(group: GatheredGroup) -> bool:
    """Return whether no environment of the group could be reset because of the task."""
    causes = [None if t.valid or t.opening else t.error for t in group.trained]
    return bool(causes) and all(cause is not None and is_bug(cause) for cause in causes)


def _mean_success(episodes: Sequence[Trajectory]) -> float:
    return float(np.mean([episode.success_or_reward for episode in episodes]))


def _writing_task(parent: Trajectory) -> Task:
    """Return the task of writing a variant of another."""
    task = parent.task
    return Task(
        f"{task.id}~",
        WRITING,
        INSTRUCTION.format(task=question_of(task), solution=attempt_of(parent)),
        tags=(*task.tags, "writing"),
        origin=Origin(Origin.VARIANTS, task.id, parent.id),
    )


def _in_other_words(task: Task, text: str) -> Task:
    """Return the task with another prompt, or another last message."""
    if not task.messages:
        return replace(task, prompt=text)
    return replace(task, messages=(*task.messages[:-1], Message("user", text)))
