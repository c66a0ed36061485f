"""Whitening: one mean and one standard deviation for all turns of a group or a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from agentgym.credit.arithmetic.statistics import SMALLEST_RELATIVE_STD, SMALLEST_STD, STD_EPSILON
from agentgym.credit.group import Group
from agentgym.credit.signals import Array

Weigh = Literal["trajectories", "turns", "tokens"]
"""The unit of weight 1 in mean and standard deviation: a trajectory (divided among its turns), a turn, or a token."""


def averaging_weights(group: Group, weigh: Weigh) -> Array:
    """Return [N, T] the weight of each turn in a mean; 0 where padding. Raises: MissingSignalError for tokens."""
    if weigh == "trajectories":
        return np.where(group.turn_mask, 1.0 / np.maximum(group.turns, 1)[:, None], 0.0)
    if weigh == "turns":
        return group.turn_mask.astype(np.float64)
    return np.where(group.turn_mask, group.signal("lengths"), 0.0)


def whitened(scores: Sequence[Array], groups: Sequence[Group], *, weigh: Weigh) -> list[Array]:
    """Return (score - mean) / std, with one weighted mean and std over all turns of all groups; equal scores give 0.

    Args:
        scores: [N, T] for each group.
        weigh: see `Weigh`.
    """
    weights = [averaging_weights(group, weigh) for group in groups]
    flat = np.concatenate([values[group.turn_mask] for values, group in zip(scores, groups, strict=True)])
    weight = np.concatenate([values[group.turn_mask] for values, group in zip(weights, groups, strict=True)])
    total = weight.sum()
    if total == 0:
        return [np.zeros(values.shape) for values in scores]
    low = flat.min()  # subtracted first, so that equal scores have a standard deviation of exactly 0
    mean = (weight * (flat - low)).sum() / total
    std = float(np.sqrt((weight * (flat - low - mean) ** 2).sum() / total))
    if std <= max(SMALLEST_STD, SMALLEST_RELATIVE_STD * float(np.abs(flat).max())):
        return [np.zeros(values.shape) for values in scores]
    return [
        np.where(group.turn_mask, (values - low - mean) / (std + STD_EPSILON), 0.0)
        for values, group in zip(scores, groups, strict=True)
    ]
