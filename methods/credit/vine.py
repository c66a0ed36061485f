"""VinePPO: the value before and after each turn, by playing on from there."""

from __future__ import annotations

import numpy as np

from agentgym.credit import Array, Group, Weight, define_estimator
from agentgym.credit.arithmetic import rewards_or_zero

from .shaping import forward_fill


@define_estimator(
    requires=("outcomes", "continuations"),
    bias="unbiased",
    source="Kazemnejad et al. 2024, arXiv:2410.01679 (VinePPO)",
    minimum_group=1,
    zero_if_equal=False,
)
def vine(group: Group, *, outcome_weight: Weight = 1.0, turn_weight: Weight = 1.0) -> Array:
    """A_ik = r_ik + V_{k+1} - V_k, V the mean return of the continuations from there; the last turn gets the outcome.

    Needs no other trajectory, so a group of one is not 0. Unbiased with one continuation already, if each
    was sampled from the same policy, independently of the others and of the trajectory.

    Args:
        outcome_weight, turn_weight: of outcome and turn rewards of the trajectory; give continuations
            whose returns are weighted alike.
    Returns: [N, T], reward units. Summed over turns it is R_i - V_0.
    Degenerate: where a state has no continuation, what the trajectory itself earned up to the next state
    that has one is used as the value after, and the last known value as the value before (0 before any);
    continuations after the last turn are ignored.
    """
    returns = group.signal("continuations")
    count = (~np.isnan(returns)).sum(axis=2)
    values = np.divide(np.nansum(returns, axis=2), count, out=np.full(count.shape, np.nan), where=count > 0)
    rewards = turn_weight * rewards_or_zero(group)
    turn_returns = np.zeros(rewards.shape)
    for k in reversed(range(rewards.shape[1])):
        following = np.zeros(group.size)
        if k + 1 < rewards.shape[1]:
            following = np.where(np.isnan(values[:, k + 1]), turn_returns[:, k + 1], values[:, k + 1])
        last = group.last_turn[:, k]
        turn_returns[:, k] = rewards[:, k] + np.where(last, outcome_weight * group.signal("outcomes"), following)
    return turn_returns - forward_fill(values[:, :-1])
