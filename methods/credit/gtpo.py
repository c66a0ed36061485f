"""GTPO: discounted return-to-go, standardised at each turn index over the trajectories that reached it."""

from __future__ import annotations

from agentgym.credit import Array, Baseline, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight


@define_estimator(
    requires=("outcomes",),
    bias="biased",
    source="arXiv:2511.14846; its discount is not confirmed",
    caution="gives no credit to a turn that only one trajectory reached, and standardises each index by itself, which "
    "blows up small differences between few turns. Kept for reproduction: use 'return_to_go'.",
)
def gtpo(
    group: Group,
    *,
    gamma: Share = 1.0,
    baseline: Baseline = "mean",
    scale: Scale = "std",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = (G_ik - mean of G_jk) / std of G_jk over the trajectories j that reached turn k.

    Biased: a turn that no other trajectory reached gets 0, as if its own return were the baseline, and each index is
    divided by its own standard deviation. `return_to_go` does neither.

    Args:
        gamma: decay per turn. baseline, scale, ddof: options of the comparison at each index.
        outcome_weight: above 0.
    Returns: [N, T], in standard deviations of the index. Degenerate: equal returns at an index give exactly 0.
    """
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    return arithmetic.normalise_columns(turn_returns, group.turn_mask, baseline=baseline, scale=scale, ddof=ddof)
