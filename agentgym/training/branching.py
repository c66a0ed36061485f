"""Groups that are grown as trees: some episodes from the start, the others branching off them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.errors import CreditError
from agentgym.policy.contract import Policy, Sampling
from agentgym.rollout.branch import Fork
from agentgym.rollout.manager import Checkpoints
from agentgym.task import Task, seed_of
from agentgym.training.rollouts import Rollouts
from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Branching:
    """How a group becomes a forest.

    Before anything is played, each branch draws a trunk of its task and the turn it leaves it before: drawn later, the
    place would depend on how the episode went, and `sibling` be biased. Where the trunk was over by then, or
    failed, the branch is an episode of its own, from the start. A world that makes checkpoints is put back to one; in
    others the calls before the branch are run again, and checked.

    Attributes:
        trunks: episodes of a group that are played from the start; at least 2, or the first turn of all is the same.
        before: branches leave before one of the turns 1 to `before`, each as likely.
        seed: of the draws.
    """

    trunks: int = 2
    before: int = 4
    seed: int = 0

    def grow(
        self,
        rollouts: Rollouts,
        policy: Policy,
        tasks: Sequence[Task],
        *,
        run: str,
        group_size: int,
        sampling: Sampling,
        progress: float | None = None,
    ) -> list[Trajectory]:
        """Play a forest for every task. Returns: as `Rollouts.play`, the trunks of a group first.

        Raises: CreditError where a group has no room for a branch, or the reward judges groups.
        """
        if rollouts.reward is not None and rollouts.reward.has_stage("group"):
            raise CreditError(
                f"{type(rollouts.reward).__name__} judges whole groups, and branches are in none: their rewards "
                "would lack what their siblings' have. Take it out of [reward], or grow no trees."
            )
        if not 2 <= self.trunks < group_size:
            raise CreditError(
                f"A group of {group_size} with {self.trunks} trunks cannot be grown as trees: set train.signals.trunks "
                f"to at least 2 and less than train.group_size."
            )
        draws = np.random.default_rng(seed_of(self.seed, run))
        shape = (len(tasks), group_size - self.trunks)
        trunks, turns = draws.integers(self.trunks, size=shape), 1 + draws.integers(self.before, size=shape)
        samples = self._samples(tasks)
        checkpoints: Checkpoints = {
            (task.id, samples[place] + int(trunk), int(turn)): None
            for place, task in enumerate(tasks)
            for trunk, turn in zip(trunks[place], turns[place], strict=True)
        }
        begun = rollouts.play(
            policy,
            tasks,
            run=run,
            group_size=self.trunks,
            sampling=sampling,
            checkpoints=checkpoints,
            progress=progress,
        )
        groups = [begun[at : at + self.trunks] for at in range(0, len(begun), self.trunks)]
        forks: list[Fork] = []
        anew: list[Task] = []
        for place, (task, group) in enumerate(zip(tasks, groups, strict=True)):
            for chosen, turn in zip(trunks[place].tolist(), turns[place].tolist(), strict=True):
                trunk = group[chosen]
                if trunk.valid and turn < len(trunk.turns):
                    forks.append(Fork(trunk, turn, checkpoints[task.id, trunk.sample, turn]))
                else:
                    anew.append(task)
        home = {trajectory.id: group for group in groups for trajectory in group}
        grown = rollouts.branch(policy, forks, 1, run=f"{run}-branch", sampling=sampling, record=True)
        for branch in sorted(grown, key=lambda trajectory: trajectory.id):  # they end in any order
            home[branch.provenance["branch"]["of"]].append(branch)
        others = iter(rollouts.play(policy, anew, run=f"{run}-anew", sampling=sampling) if anew else ())
        for group in groups:
            group += [next(others) for _ in range(group_size - len(group))]
        return [trajectory for group in groups for trajectory in group]

    def _samples(self, tasks: Sequence[Task]) -> list[int]:
        """The sample number of each group's first trunk: a task that comes again goes on counting."""
        seen: Counter[str] = Counter()
        found = []
        for task in tasks:
            found.append(seen[task.id])
            seen[task.id] += self.trunks
        return found
