"""Grows groups as trees: some episodes start at the beginning, the others branch off them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentgym import CreditError, Task, seed_of
from agentgym.rollout import Checkpoints, Fork
from agentgym.training import Rollouts
from agentgym.training.gatherers import GatheredGroup, StepRequest


@dataclass(frozen=True, slots=True)
class Branching:
    """Grows each group as a forest.

    Before anything is played, each branch draws one of its task's root episodes and the turn before which it branches
    off. If this were drawn later, it would depend on the episode and bias the estimator `sibling`. If the root episode
    failed or ended before that turn, an episode from the start replaces the branch. If the environment makes
    checkpoints, one is restored; otherwise the calls before the branch are repeated, and their results are compared
    with the recorded ones.

    Attributes:
        root_episodes: number of episodes per group that are played from the start; at least 2, so that first turns can
            be compared.
        before: the last turn before which a branch may begin. The turn of each branch is drawn uniformly from 1 to
            `before`.
        seed: the seed of the draws.
    """

    root_episodes: int = 2
    before: int = 4
    seed: int = 0

    def grow(self, step: StepRequest) -> list[GatheredGroup]:
        """Play a forest for every task; this method is a Gatherer. The root episodes of a group come first.

        Raises: CreditError if a group has no room for a branch, or the reward judges groups.
        """
        rollouts, tasks, label, group_size = step.rollouts, step.tasks, step.label, step.group_size
        self._check(rollouts, group_size)
        draws = np.random.default_rng(seed_of(self.seed, label))
        shape = (len(tasks), group_size - self.root_episodes)
        roots, turns = draws.integers(self.root_episodes, size=shape), 1 + draws.integers(self.before, size=shape)
        first_samples = self._first_samples(tasks)
        checkpoints: Checkpoints = {
            (task.id, first_sample + int(root), int(turn)): None
            for task, first_sample, task_roots, task_turns in zip(tasks, first_samples, roots, turns, strict=True)
            for root, turn in zip(task_roots, task_turns, strict=True)
        }
        root_trajectories = rollouts.play(
            step.policy,
            tasks,
            label=label,
            group_size=self.root_episodes,
            checkpoints=checkpoints,
            progress=step.progress,
        )
        starts = range(0, len(root_trajectories), self.root_episodes)
        groups = [root_trajectories[start : start + self.root_episodes] for start in starts]
        forks: list[Fork] = []
        tasks_from_start: list[Task] = []
        for task, group, task_roots, task_turns in zip(tasks, groups, roots.tolist(), turns.tolist(), strict=True):
            for root_index, turn in zip(task_roots, task_turns, strict=True):
                root = group[root_index]
                if root.valid and turn < len(root.turns):
                    forks.append(Fork(root, turn, checkpoints[task.id, root.sample, turn]))
                else:
                    tasks_from_start.append(task)
        group_of = {trajectory.id: group for group in groups for trajectory in group}
        branches = step.branch(forks, 1, f"{label}-branch")
        for branch in sorted(branches, key=lambda trajectory: trajectory.id):  # sorted, because they end in any order
            assert branch.provenance.branch is not None
            group_of[branch.provenance.branch.trajectory].append(branch)
        others = iter(rollouts.play(step.policy, tasks_from_start, label=f"{label}-anew") if tasks_from_start else ())
        for group in groups:
            group += [next(others) for _ in range(group_size - len(group))]
        return [GatheredGroup(group) for group in groups]

    def _check(self, rollouts: Rollouts, group_size: int) -> None:
        if rollouts.reward is not None and rollouts.reward.has_stage("group"):
            raise CreditError(
                f"{type(rollouts.reward).__name__} judges whole groups, but branches belong to no group, so their "
                "rewards would lack components that their siblings have. Remove it from [reward], or choose an "
                "estimator that needs no branches."
            )
        if not 2 <= self.root_episodes < group_size:
            raise CreditError(
                f"train.signals.root_episodes = {self.root_episodes} does not fit a group of {group_size}: give at "
                "least 2, and less than train.group_size, so that branches can be added."
            )

    def _first_samples(self, tasks: Sequence[Task]) -> list[int]:
        """Return the sample number of each group's first root episode; a repeated task continues its numbering."""
        next_sample: Counter[str] = Counter()
        first_samples = []
        for task in tasks:
            first_samples.append(next_sample[task.id])
            next_sample[task.id] += self.root_episodes
        return first_samples
