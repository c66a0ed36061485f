"""Statistics over the turns of a group with the same label, such as the state before the turn."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym.credit.arithmetic.statistics import SMALLEST_RELATIVE_STD, SMALLEST_STD
from agentgym.credit.options import Baseline
from agentgym.credit.signals import Array, Labels


@dataclass(frozen=True, slots=True)
class LabelGroups:
    """The S turns of a group by label. Every array has one entry per turn, in the order of trajectories and turns.

    Attributes:
        label_index: [S] the index of each turn's label; every turn labelled None has its own index.
        trajectory_index: [S] the trajectory of each turn.
        size: N, the number of trajectories.
    """

    label_index: NDArray[np.int64]
    trajectory_index: NDArray[np.int64]
    size: int

    def count(self, baseline: Baseline) -> NDArray[np.int64]:
        """Return [S] the number of turns with the same label: in other trajectories ("loo"), or in all ("mean")."""
        count: NDArray[np.int64] = np.bincount(self.label_index)[self.label_index]
        return count - np.bincount(self._cell)[self._cell] if baseline == "loo" else count

    def centred(self, scores: Array, baseline: Baseline) -> Array:
        """Return [S] the scores minus the mean over the turns that `count` counts; NaN if there are none.

        Equal scores give exactly 0, see `statistics.centred`.
        """
        above = scores - self._lowest(scores)
        total = np.bincount(self.label_index, above)[self.label_index]
        if baseline == "loo":
            total = total - np.bincount(self._cell, above)[self._cell]
        count = self.count(baseline)
        mean: Array = np.divide(total, count, out=np.full(len(scores), np.nan), where=count > 0)
        return above - mean

    def stable_std(self, scores: Array, *, ddof: int) -> Array:
        """Return [S] the standard deviation of the scores with the same label; exactly 0 if they hardly differ."""
        square = np.bincount(self.label_index, self.centred(scores, "mean") ** 2)[self.label_index]
        count = self.count("mean")
        std = np.sqrt(square / np.maximum(count - ddof, 1))
        largest = -self._lowest(-np.abs(scores))
        return np.where((std > SMALLEST_STD) & (std > SMALLEST_RELATIVE_STD * largest) & (count > ddof), std, 0.0)

    def after(self, before: LabelGroups) -> LabelGroups:
        """Group the turns that have the same label here and whose previous turns have the same label in `before`.

        The first turn of a trajectory has no previous turn, so it is in a group of its own.
        """
        joined = np.arange(len(self.label_index)) - len(self.label_index)  # negative: equal to no label
        follows = np.flatnonzero(self.trajectory_index[1:] == self.trajectory_index[:-1]) + 1
        joined[follows] = before.label_index[follows - 1] * len(self.label_index) + self.label_index[follows]
        return LabelGroups(np.unique(joined, return_inverse=True)[1], self.trajectory_index, self.size)

    @property
    def _cell(self) -> NDArray[np.int64]:
        """[S] index of the pair of label and trajectory."""
        return self.label_index * self.size + self.trajectory_index

    def _lowest(self, scores: Array) -> Array:
        """Return [S] the lowest score with the same label."""
        lowest = np.full(int(self.label_index.max(initial=-1)) + 1, np.inf)
        np.minimum.at(lowest, self.label_index, scores)
        return lowest[self.label_index]


def group_by_label(labels: Labels) -> LabelGroups:
    """Return the turns by label. None equals no other label, not even another None."""
    indices: dict[Hashable, int] = {}
    label_index = [
        indices.setdefault(object() if label is None else label, len(indices)) for row in labels for label in row
    ]
    trajectory_index = np.repeat(np.arange(len(labels)), [len(row) for row in labels])
    return LabelGroups(np.array(label_index, np.int64), trajectory_index, len(labels))
