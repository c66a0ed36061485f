"""OTB: return-to-go minus its mean at the turn's index, weighted by score norms."""

from __future__ import annotations

import numpy as np

from agentgym.credit import Array, Baseline, Group, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight

from .bias_classes import unbiased_if_leave_one_out


@define_estimator(
    requires=("outcomes", "score_norms"),
    bias=unbiased_if_leave_one_out,
    source="optimal token baseline, after its form in verl with the turn as the step; leave-one-out: our own",
)
def otb(
    group: Group,
    *,
    gamma: Share = 1.0,
    baseline: Baseline = "mean",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = G_ik - sum_j W_jk G_jk / sum_j W_jk over the trajectories j that reached turn k; W_jk sums j's score norms
    up to k.

    In the baseline of least variance each return is weighted by the squared norm of its score. The last layer's part of
    this norm is 1 - 2 pi + sum pi^2, summed over tokens.

    Args:
        gamma: decay per turn.
        baseline: "mean" includes the trajectory itself, as published (biased); "loo" leaves it out, which is unbiased.
        outcome_weight: above 0.
    Returns: [N, T], reward units. Degenerate: equal returns-to-go give exactly 0. A turn that no other trajectory
        reached gets exactly 0 with "mean"; with "loo" its baseline is the mean episode return of the other
        trajectories. If all scores are 0 the baseline is the plain mean.
    """
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    mask = group.turn_mask
    weights = np.where(mask, np.cumsum(np.where(mask, group.signal("score_norms"), 0.0), axis=1), 0.0)
    low = np.where(mask, turn_returns, np.inf).min(axis=0)
    above = np.where(mask, turn_returns - low, 0.0)
    leave_out = baseline == "loo"
    total = weights.sum(axis=0) - leave_out * weights
    weighted = (weights * above).sum(axis=0) - leave_out * weights * above
    plain = arithmetic.baseline_of(above, baseline, mask)
    mean = np.where(total > 0, weighted / np.where(total > 0, total, 1.0), plain)
    if baseline == "loo":
        returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
        only_one = mask.sum(axis=0) == 1
        mean = np.where(only_one, arithmetic.baseline_of(returns, "loo")[:, None] - low, mean)
    return np.where(mask, above - mean, 0.0)
