"""Return-to-go with the environment's potential as a baseline for each turn."""

from __future__ import annotations

from agentgym.credit import Array, Baseline, Group, define_estimator
from agentgym.options import Positive, Share, Weight

from .bias_classes import unbiased_if_leave_one_out
from .shaping import shaped_advantages


@define_estimator(
    requires=("outcomes", "potentials"),
    bias=unbiased_if_leave_one_out,
    source="Ng, Harada and Russell 1999 (policy invariance under reward transformations); per turn and group: our own",
)
def potential_shaping(
    group: Group,
    *,
    weight: Weight = 1.0,
    gamma: Share = 1.0,
    baseline: Baseline = "loo",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """`return_to_go` of r_k + weight * (gamma * Phi_{k+1} - Phi_k), with Phi = 0 after the last turn.

    Unbiased for any potential, even a wrong one: from turn k on the added terms sum to -weight * Phi_k, which was known
    before the turn. A good potential, near the expected return, reduces noise; one on another scale adds noise.

    Args:
        weight: reward units per unit of the potential; 0 is `return_to_go`, bit for bit.
        gamma, baseline, outcome_weight, turn_weight: as in `return_to_go`.
    Returns: [N, T], reward units. Degenerate: in place of a missing potential the last known one is used, or 0 if there
        is none.
    """
    return shaped_advantages(
        group,
        group.signal("potentials"),
        weight=weight,
        gamma=gamma,
        baseline=baseline,
        outcome_weight=outcome_weight,
        turn_weight=turn_weight,
    )
