"""Train on the groups of a step whose returns differ most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from agentgym.options import Share
from agentgym.training import Exclusion
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest


def top_spread(inner: Gatherer, *, share: Share = 0.25) -> Gatherer:
    """Trains on the given share of a step's groups, those whose returns have the greatest standard deviation.

    Tasks of medium difficulty are preferred to easy and hard ones, so the trained tasks are not an unbiased sample.
    Groups stay whole, so the bias class that an estimator declares (docs/credit.md) still holds within each group.
    """

    def choose(groups: list[GatheredGroup]) -> list[GatheredGroup]:
        rows = [row for row, group in enumerate(groups) if group.trained]
        by_spread = sorted(rows, key=lambda row: -groups[row].spread)  # stable: ties keep their order
        chosen = set(by_spread[: max(1, ceil(share * len(rows)))])
        return [group if row in chosen or not group.trained else group.untrained() for row, group in enumerate(groups)]

    return _Selection(inner, choose)


class _Selection(GathererWrapper):
    """Plays nothing: `choose` returns the groups of `inner`, with the rejected ones untrained."""

    excludes: ClassVar[tuple[Exclusion, ...]] = ()

    def __init__(self, inner: Gatherer, choose: Callable[[list[GatheredGroup]], list[GatheredGroup]]) -> None:
        super().__init__(inner)
        self._choose = choose

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather the groups of a step and select among them."""
        return self._choose(self.inner(step))


class SpreadThreshold(GathererWrapper):
    """Trains on the groups whose spread reaches a running mean of the spreads of all groups.

    The threshold rises while groups differ more, and falls as the policy becomes certain. The group with the greatest
    spread is always kept. Groups are dropped or kept whole, so the bias class that an estimator declares
    (docs/credit.md) still holds within each group; the mean over groups covers only groups that differ.

    Args:
        memory: share of the threshold kept in each step; the rest is the step's mean spread.
        factor: multiplies the mean, 0 to 1.
    Source: RLPR, Yu et al. 2025, arXiv:2506.18254. The defaults 0.99 and 1 are our choices.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = ()

    def __init__(self, inner: Gatherer, *, memory: Share = 0.99, factor: Share = 1.0) -> None:
        super().__init__(inner)
        self._memory, self._factor = memory, factor
        self._mean: float | None = None

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step, and drop the groups whose spread is below the threshold."""
        groups = self.inner(step)
        spreads = [group.spread for group in groups if group.trained]
        if not spreads:
            return groups
        now = float(np.mean(spreads))
        self._mean = now if self._mean is None else self._memory * self._mean + (1 - self._memory) * now
        threshold = min(self._factor * self._mean, max(spreads))
        return [group if not group.trained or group.spread >= threshold else group.untrained() for group in groups]

    @override
    def state(self) -> dict[str, Any]:
        return {"mean": self._mean}

    @override
    def load(self, state: Mapping[str, Any]) -> None:
        self._mean = state["mean"]
