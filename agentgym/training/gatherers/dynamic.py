"""Plays further tasks until enough groups of a step differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from typing_extensions import override

from agentgym.credit.options import Count, Decay
from agentgym.task import Task
from agentgym.training.gatherers.contract import Gatherer, GathererWrapper
from agentgym.training.gatherers.groups import GatheredGroup
from agentgym.training.gatherers.step import StepRequest


class DynamicSampling(GathererWrapper):
    """Plays further tasks until as many groups as a step trains on have returns that differ.

    A group in which all returns are equal has no gradient. If a share u of the groups is useful, a useful group costs
    1 / u groups. Where the tasks of `max_rounds` rounds do not suffice, the rest of the step are groups that do not
    differ. Useful groups beyond those that are needed are played and left out.

    Which tasks are trained on depends on how their episodes went: easy and impossible ones drop out. Within a task
    nothing is chosen, so the bias class of an estimator holds for each group by itself, but the mean over groups is
    that over useful groups.

    Args:
        max_rounds: how often tasks are drawn for one step.
        max_rate: more groups than are missing may be played at once, at most so many times as many. The rate is the
            inverse of the useful share of earlier steps; with 1, no more than are missing.
        memory: what the earlier share still weighs after each step, against 1 for the newest.
    Source: DAPO, Yu et al. 2025, arXiv:2503.14476; the adaptive rate as in CodeV-R1, Zhu et al. 2025,
        arXiv:2505.24183, with a running mean of our own.
    """

    def __init__(self, inner: Gatherer, *, max_rounds: Count = 4, max_rate: Count = 1, memory: Decay = 0.5) -> None:
        super().__init__(inner)
        self._max_rounds, self._max_rate, self._memory = max_rounds, max_rate, memory
        self._useful_share = 1.0

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step. Groups that differ come first, in the order in which they were played."""
        needed, draws = len(step.tasks), 0
        useful: list[GatheredGroup] = []
        others: list[GatheredGroup] = []

        def more_tasks(count: int) -> Sequence[Task]:
            nonlocal draws
            draws += 1
            return step.more_tasks(count, draws) if count else []

        for turn in range(self._max_rounds):
            missing = needed - len(useful)
            count = ceil(missing * min(self._max_rate, 1 / max(self._useful_share, 1e-9)))
            own = step.tasks if turn == 0 else []
            tasks = [*own, *more_tasks(count - len(own))]
            if not tasks:
                break
            label = step.label if turn == 0 else f"{step.label}-more{turn}"
            for group in self.inner(replace(step, tasks=tasks, label=label)):
                (useful if group.differs else others).append(group)
            if len(useful) >= needed:
                break
        self._note(len(useful), len(useful) + len(others))
        surplus = [GatheredGroup([], group.episodes) for group in useful[needed:]]
        trainable = [group for group in others if group.trained]
        fill = trainable[: max(0, needed - len(useful))]
        rest = [*(group for group in others if not group.trained), *trainable[len(fill) :]]
        return [*useful[:needed], *fill, *surplus, *(GatheredGroup([], group.episodes) for group in rest)]

    def _note(self, useful: int, total: int) -> None:
        share = useful / max(1, total)
        self._useful_share = (self._memory * self._useful_share + share) / (self._memory + 1)

    @override
    def state(self) -> dict[str, Any]:
        return {"useful_share": self._useful_share}

    @override
    def load(self, state: Mapping[str, Any]) -> None:
        self._useful_share = state["useful_share"]
