"""Gathering: statistics over the turns of a group that carry the same label, such as the state they were made in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.credit.options import Baseline
from agentgym.credit.signals import Array, Labels
from agentgym.credit.statistics import SMALLEST_RELATIVE_STD, SMALLEST_STD


@dataclass(frozen=True, slots=True)
class LabelGroups:
    """Turns by label; every array has one entry for each turn, in the order of trajectories and turns.

    Attributes:
        place: [S] number of the label of each turn; turns labelled None have a place of their own.
        owner: [S] the trajectory of each turn. size: N.
    """

    place: NDArray[np.int64]
    owner: NDArray[np.int64]
    size: int

    def count(self, baseline: Baseline) -> NDArray[np.int64]:
        """[S] turns with the same label: of other trajectories ("loo"), or all of them, itself too ("mean")."""
        found: NDArray[np.int64] = np.bincount(self.place)[self.place]
        return found - np.bincount(self._cell)[self._cell] if baseline == "loo" else found

    def centred(self, scores: Array, baseline: Baseline) -> Array:
        """[S] scores minus the mean of the same label, as `count` says; NaN where there is nobody to compare with.

        Equal scores give exactly 0, see `statistics.centred`.
        """
        above = scores - self._least(scores)
        total = np.bincount(self.place, above)[self.place]
        if baseline == "loo":
            total = total - np.bincount(self._cell, above)[self._cell]
        count = self.count(baseline)
        mean: Array = np.divide(total, count, out=np.full(len(scores), np.nan), where=count > 0)
        return above - mean

    def spread(self, scores: Array, *, ddof: int) -> Array:
        """[S] standard deviation of the scores with the same label; exactly 0 where they hardly differ."""
        square = np.bincount(self.place, self.centred(scores, "mean") ** 2)[self.place]
        count = self.count("mean")
        std = np.sqrt(square / np.maximum(count - ddof, 1))
        largest = -self._least(-np.abs(scores))
        return np.where((std > SMALLEST_STD) & (std > SMALLEST_RELATIVE_STD * largest) & (count > ddof), std, 0.0)

    def after(self, before: LabelGroups) -> LabelGroups:
        """Turns that carry the same label here, and whose previous turn carries the same label in `before`.

        A trajectory's first turn, which has none, is alike to none.
        """
        joined = np.arange(len(self.place)) - len(self.place)  # below 0, where no label is
        follows = np.flatnonzero(self.owner[1:] == self.owner[:-1]) + 1
        joined[follows] = before.place[follows - 1] * len(self.place) + self.place[follows]
        return LabelGroups(np.unique(joined, return_inverse=True)[1], self.owner, self.size)

    @property
    def _cell(self) -> NDArray[np.int64]:
        return self.place * self.size + self.owner

    def _least(self, scores: Array) -> Array:
        least = np.full(int(self.place.max(initial=-1)) + 1, np.inf)
        np.minimum.at(least, self.place, scores)
        return least[self.place]


def group_by_label(labels: Labels) -> LabelGroups:
    """Turns by label. None is like no other label, not even another None."""
    numbers: dict[Hashable, int] = {}
    place = [numbers.setdefault(object() if one is None else one, len(numbers)) for row in labels for one in row]
    owner = np.repeat(np.arange(len(labels)), [len(row) for row in labels])
    return LabelGroups(np.array(place, np.int64), owner, len(labels))
