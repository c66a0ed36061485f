"""VinePPO: the values before and after each turn, estimated by continuing the episode from there."""

from __future__ import annotations

import numpy as np

from agentgym.credit import Array, Group, arithmetic, define_estimator
from agentgym.options import Weight

from .shaping import forward_fill


@define_estimator(
    requires=("outcomes", "continuations"),
    bias="unbiased",
    source="Kazemnejad et al. 2024, arXiv:2410.01679 (VinePPO)",
    minimum_group=1,
    zero_if_equal=False,
)
def vine(group: Group, *, outcome_weight: Weight = 1.0, turn_weight: Weight = 1.0) -> Array:
    """A_ik = r_ik + V_{k+1} - V_k; V_k is the mean return of continuations before turn k, at the end the outcome.

    Needs no other trajectory, so a group of one is not 0. Unbiased even with one continuation, if each was sampled from
    the same policy, independently of the others and of the trajectory.

    Args:
        outcome_weight, turn_weight: weights of the trajectory's outcome and turn rewards; continuations must have
            returns with the same weights.
    Returns: [N, T], reward units. Summed over turns it is R_i - V_0.
    Degenerate: at a state without continuations, the value after a turn is what the trajectory itself earned up to the
    next state that has one, and the value before a turn is the last known value (0 before any); continuations after the
    last turn are ignored.
    """
    returns = group.signal("continuations")
    count = (~np.isnan(returns)).sum(axis=2)
    values = np.divide(np.nansum(returns, axis=2), count, out=np.full(count.shape, np.nan), where=count > 0)
    rewards = turn_weight * arithmetic.rewards_or_zero(group)
    turn_returns = np.zeros(rewards.shape)
    for k in reversed(range(rewards.shape[1])):
        following = np.zeros(group.size)
        if k + 1 < rewards.shape[1]:
            following = np.where(np.isnan(values[:, k + 1]), turn_returns[:, k + 1], values[:, k + 1])
        last = group.last_turn[:, k]
        turn_returns[:, k] = rewards[:, k] + np.where(last, outcome_weight * group.signal("outcomes"), following)
    return turn_returns - forward_fill(values[:, :-1])
