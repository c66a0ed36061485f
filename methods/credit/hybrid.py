"""Hybrid credit: discounted return-to-go compared at each turn index, plus a share of the outcome's advantage."""

from __future__ import annotations

from agentgym.credit import Array, Baseline, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight


@define_estimator(requires=("outcomes",), bias="biased", source="arXiv:2604.02869, the hybrid row")
def hybrid(
    group: Group,
    *,
    gamma: Share = 0.9,
    outcome_share: Weight = 0.3,
    baseline: Baseline = "mean",
    scale: Scale = "std",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = n_k(G_ik) + outcome_share * n(o_i); n_k compares trajectories that reached turn k, n compares all.

    Biased as `gtpo` is: it adds the outcome's advantage to that estimator.

    Args:
        gamma: decay per turn, 0.9 as published. outcome_share: lambda of the paper, 0.3.
        baseline, scale, ddof: options of both comparisons. outcome_weight: above 0, inside G_ik.
    Returns: [N, T]. Degenerate: a constant term adds exactly 0; outcome_share 0 is `gtpo`, bit for bit.
    """
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    turn = arithmetic.normalise_columns(turn_returns, group.turn_mask, baseline=baseline, scale=scale, ddof=ddof)
    outcomes: Array = group.signal("outcomes")
    everyone = group.valid
    outcome = arithmetic.normalise_columns(outcomes, everyone, baseline=baseline, scale=scale, ddof=ddof)
    return turn + outcome_share * outcome[:, None]
