"""Predictions of a critic before each turn, and generalised advantage estimates with the turn as the step."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit.arithmetic.returns import discounted_sums, rewards_or_zero
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.errors import CreditError

Truncated = Literal["scored", "bootstrap"]
"""The value after the last turn of a truncated episode: 0 ("scored" as it stands), or the critic's prediction."""


def values_before(group: Group, field: str, values: Array) -> Array:
    """Return [N, T] the predictions before each turn, 0 where padding.

    Raises: CreditError naming trajectory and turn if a prediction is missing.
    """
    mask = group.turn_mask
    missing = np.argwhere(np.isnan(values) & mask)
    if len(missing):
        i, k = (int(x) for x in missing[0])
        raise CreditError(
            f"{field} of the {i}th valid trajectory, turn {k} is missing: a critic predicts one before every turn."
        )
    return np.where(mask, values, 0.0)


def value_after_last(group: Group, truncated: Truncated) -> Array:
    """Return [N] the value after the last turn: 0, or for a truncated trajectory with "bootstrap" the prediction.

    Raises: CreditError naming the truncated trajectory whose prediction is missing.
    """
    if truncated == "scored" or not group.truncated.any():
        return np.zeros(group.size)
    values: Array = group.signal("values")
    after = values[np.arange(group.size), group.turns]
    missing = np.flatnonzero(np.isnan(after) & group.truncated)
    if len(missing):
        raise CreditError(
            f"values of the {missing[0]}th valid trajectory end before its last turn's end, and it was truncated: "
            "give one value more than turns, or set truncated='scored'."
        )
    return np.where(group.truncated, after, 0.0)


def turn_advantages(
    group: Group,
    values: Array,
    *,
    gamma: float,
    lam: float,
    truncated: Truncated,
    outcome_weight: float,
    turn_weight: float,
) -> Array:
    """Return [N, T] A_k = d_k + gamma lam A_k+1 with d_k = r_k + gamma V_k+1 - V_k; 0 where padding.

    Args:
        values: [N, T] before each turn, 0 where padding. The outcome is part of the last turn's reward.
    Raises: CreditError where a value to bootstrap from is missing.
    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16, with the turn as the step.
    """
    rows, last = np.arange(group.size), group.turns - 1
    rewards = turn_weight * rewards_or_zero(group)
    following = np.zeros(rewards.shape)
    following[:, :-1] = values[:, 1:]
    following[rows, last] = value_after_last(group, truncated)
    td_errors = rewards + gamma * following - values
    td_errors[rows, last] += outcome_weight * group.signal("outcomes")
    td_errors[~group.turn_mask] = 0.0
    return discounted_sums(td_errors, gamma * lam)
