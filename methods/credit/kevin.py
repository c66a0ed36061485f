"""Kevin: discounted return-to-go, standardised over all turns of the group."""

from __future__ import annotations

from agentgym.credit import Array, Group, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight


@define_estimator(
    requires=("outcomes",),
    bias="biased",
    source="Baronio et al. 2025, arXiv:2507.11948",
    zero_if_equal=False,
    caution="with its discount of 0.4, rewards two turns later hardly count, so ending early can look best. Kept for "
    "reproduction: use 'return_to_go'.",
)
def kevin(
    group: Group,
    *,
    gamma: Share = 0.4,
    weigh: arithmetic.Weigh = "turns",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = (G_ik - mean G) / (std G + 1e-6), mean and std over every turn of the group.

    Biased, even in sign: on the flip problem of the tests it teaches the policy to answer at once. gamma discounts
    later rewards, turns of different index are compared although different amounts of reward remain, and a long
    trajectory has more weight in mean and std.

    Args:
        gamma: decay per turn; 0.4 as published.
        weigh: weights in mean and std; "turns" as published, "trajectories" gives each trajectory the same weight.
        outcome_weight: above 0.
    Returns: [N, T], in standard deviations of the group. Degenerate: equal returns give exactly 0.
    """
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    return arithmetic.whitened([turn_returns], [group], weigh=weigh)[0]
