"""Information gain as a potential: the probability of the right answer before each turn."""

from __future__ import annotations

import numpy as np

from agentgym.credit import Array, Baseline, Group, define_estimator
from agentgym.options import Positive, Share, Weight

from .bias_classes import unbiased_if_leave_one_out
from .shaping import shaped_advantages


@define_estimator(
    requires=("outcomes", "gold_logprobs"),
    bias=unbiased_if_leave_one_out,
    source="signal: Wang et al. 2025, arXiv:2510.14967 (IGPO); the correction at the last turn: our own",
)
def information_gain(
    group: Group,
    *,
    weight: Weight = 1.0,
    gamma: Share = 1.0,
    baseline: Baseline = "loo",
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """`potential_shaping` with Phi_k = p_k, the probability of the gold answer given all before turn k.

    A turn gets p_{k+1} - p_k on top of its reward. The last turn gets -p_K, so that the final answer is not rewarded
    for what the policy already knew before it. `igpo` leaves -p_K out and is biased.

    Args:
        weight: weight of the gain; 0 is `return_to_go`, bit for bit.
        gamma, baseline, outcome_weight, turn_weight: as in `return_to_go`.
    Returns: [N, T], reward units. Degenerate: where the answer was not scored, the last known p is used, or 0 if there
        is none.
    """
    before = np.exp(group.signal("gold_logprobs"))[:, :-1]
    return shaped_advantages(
        group,
        before,
        weight=weight,
        gamma=gamma,
        baseline=baseline,
        outcome_weight=outcome_weight,
        turn_weight=turn_weight,
    )
