"""OTB: return-to-go above a mean in which trajectories with a large score count more, at each turn index."""

from __future__ import annotations

import numpy as np

from agentgym.credit.contract import define_estimator, unbiased_if_leave_one_out
from agentgym.credit.group import Group
from agentgym.credit.options import Baseline, Decay, PositiveWeight, Weight
from agentgym.credit.returns import episode_returns, returns_to_go
from agentgym.credit.signals import Array
from agentgym.credit.statistics import baseline_of


@define_estimator(
    requires=("outcomes", "score_norms"),
    bias=unbiased_if_leave_one_out,
    source="optimal token baseline, after its form in verl with the turn as the step; leave-one-out: our own",
)
def otb(
    group: Group,
    *,
    gamma: Decay = 1.0,
    baseline: Baseline = "mean",
    outcome_weight: PositiveWeight = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = G_ik - sum_j W_jk G_jk / sum_j W_jk over those that reached turn k; W_jk sums the score norms up to k.

    The weight that each return has in the baseline of least variance is the squared length of its score, of which
    1 - 2 pi + sum pi^2, summed over tokens, is the part that the last layer tells.

    Args:
        gamma: decay per turn.
        baseline: "mean" holds the own trajectory, as published (biased); "loo" leaves it out, which is unbiased.
        outcome_weight: above 0.
    Returns: [N, T], reward units. Degenerate: equal returns-to-go give exactly 0, and so does, with "mean", a turn that
        nobody else reached; with "loo" the mean of the others' whole returns stands in there. Where all scores
        are 0 it is the plain mean.
    """
    worth = returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    played = group.turn_mask
    weights = np.where(played, np.cumsum(np.where(played, group.signal("score_norms"), 0.0), axis=1), 0.0)
    low = np.where(played, worth, np.inf).min(axis=0)
    above = np.where(played, worth - low, 0.0)
    own = baseline == "loo"
    total = weights.sum(axis=0) - own * weights
    weighed = (weights * above).sum(axis=0) - own * weights * above
    plain = baseline_of(above, baseline, played)
    mean = np.where(total > 0, weighed / np.where(total > 0, total, 1.0), plain)
    if baseline == "loo":
        whole = episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
        alone = played.sum(axis=0) == 1
        mean = np.where(alone, baseline_of(whole, "loo")[:, None] - low, mean)
    return np.where(played, above - mean, 0.0)
