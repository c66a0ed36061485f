"""Play further tasks until enough groups of a step have returns that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from typing_extensions import override

from agentgym import Task
from agentgym.options import Count, Share
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest


class DynamicSampling(GathererWrapper):
    """Plays further tasks until as many groups as a step trains on have returns that differ.

    A group with equal returns has no gradient. If a fraction u of the groups is useful, each useful group costs 1 / u
    groups. If `max_rounds` rounds yield too few useful groups, other groups fill the step. Surplus useful groups are
    left out.

    The results of the episodes decide which tasks are trained on: easy and impossible tasks drop out. Groups are kept
    or dropped whole, so an estimator's bias class holds for each group. The mean over groups covers useful groups only.

    Args:
        max_rounds: maximum number of rounds in which tasks are drawn for one step.
        max_rate: a round plays the number of groups still missing, divided by the useful fraction in earlier steps, but
            at most `max_rate` times this number. With 1, it plays as many as are missing.
        memory: in the running useful fraction, the weight of earlier steps after each step; the newest step has weight
            1.
    Source: DAPO, Yu et al. 2025, arXiv:2503.14476; the adaptive rate as in CodeV-R1, Zhu et al. 2025,
        arXiv:2505.24183, with our own running mean.
    """

    def __init__(self, inner: Gatherer, *, max_rounds: Count = 4, max_rate: Count = 1, memory: Share = 0.5) -> None:
        super().__init__(inner)
        self._max_rounds, self._max_rate, self._memory = max_rounds, max_rate, memory
        self._useful_share = 1.0

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather the groups of a step. Groups whose returns differ come first, in the order played."""
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
