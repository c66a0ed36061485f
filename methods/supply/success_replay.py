"""Put a stored success into a group without any success."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from agentgym import AgentGymError, seed_of
from agentgym.options import Count, Share
from agentgym.training import Exclusion, TrainingPart, TrainingPlan
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest


def masked_age(part: TrainingPart, plan: TrainingPlan) -> str:
    """Reject a plan that bounds the age of turns, as one that plays in the background does, because replayed episodes
    are older.
    """
    if not plan.train.masks_stale_turns:
        return ""
    return (
        f"train.gather = {plan.train.gather} puts in episodes of earlier steps, and turns older than the staleness get "
        f'no credit. Name a wrapper without that bound: estimator = "{plan.train.estimator} | '
        f'off_policy(mode={plan.train.correction!r})".'
    )


class SuccessReplay(GathererWrapper):
    """Replaces the worst episode of a failed group with an earlier success at the same task.

    So a task that was solved once keeps a gradient. The stored episode keeps the log-probabilities that it was sampled
    with, so the importance ratio of the loss compares then and now; `off_policy` masks or weighs turns that are too
    old. The group is then not a sample of the policy, so an estimator's bias class is not valid for it.

    Args:
        per_task: how many of the newest successes of each task are stored.
        solved: an episode is stored if its success is above this.
        spread, mean: a group counts as failed if the standard deviation of its success is below `spread` and the mean
            below `mean`.
    Source: ARPO, Lu et al. 2025, arXiv:2505.16282; the numbers are those of its authors' code.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (GathererWrapper.group_rewards, masked_age)

    def __init__(
        self,
        inner: Gatherer,
        *,
        per_task: Count = 8,
        solved: Share = 0.1,
        spread: Share = 0.05,
        mean: Share = 0.2,
    ) -> None:
        super().__init__(inner)
        self._per_task, self._solved, self._spread, self._mean = per_task, solved, spread, mean
        self._ids: dict[str, deque[str]] = {}

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step, then store its successes."""
        gathered = self.inner(step)
        groups = [self._with_success(step, group) for group in gathered]
        for group in gathered:
            for episode in group.episodes:
                if episode.valid and episode.success_or_reward > self._solved:
                    self._ids.setdefault(episode.task.id, deque(maxlen=self._per_task)).append(episode.id)
        return groups

    def _with_success(self, step: StepRequest, group: GatheredGroup) -> GatheredGroup:
        rows = [row for row, episode in enumerate(group.trained) if episode.valid]
        successes = [group.trained[row].success_or_reward for row in rows]
        stored = self._ids.get(group.trained[0].task.id) if rows else None
        if not stored or np.std(successes) >= self._spread or np.mean(successes) >= self._mean:
            return group
        chosen = random.Random(seed_of("success_replay", step.label, group.trained[0].id)).choice(stored)
        if (records := step.rollouts.records) is None:
            raise AgentGymError(f"The stored success {chosen!r} cannot be read, because this run keeps no ledger.")
        success = records.load(chosen)
        worst = min(rows, key=lambda row: (group.trained[row].return_from(), -row))
        trained = list(group.trained)
        left_out = [*group.left_out, trained[worst]]
        trained[worst] = success
        return replace(group, trained=trained, left_out=left_out, replayed=group.replayed | {success.id})

    @override
    def state(self) -> dict[str, Any]:
        # the ids of the stored episodes, which the ledger keeps
        return {task: list(ids) for task, ids in self._ids.items()}

    @override
    def load(self, state: Mapping[str, Any]) -> None:
        self._ids = {task: deque(ids, self._per_task) for task, ids in state.items()}
