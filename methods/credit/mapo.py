"""MAPO: mix GRPO's advantage with the deviation divided by the mean; the more outcomes agree, the more of the
latter.
"""

from __future__ import annotations

import numpy as np

from agentgym.credit import Array, Ddof, Group, arithmetic, define_estimator
from agentgym.options import Weight


@define_estimator(requires=("outcomes",), bias="direction", source="Huang et al. 2025, arXiv:2509.18849", by_turn=False)
def mapo(
    group: Group, *, success: float = 0.5, ddof: Ddof = 1, outcome_weight: Weight = 1.0, turn_weight: Weight = 1.0
) -> Array:
    """A_ik = (1 - lambda) (R_i - mean R) / std R + lambda (R_i - mean R) / mean R, lambda = 1 - 4 p (1 - p).

    p is the share of successful trajectories: lambda is 0 if half succeeded, and 1 if all or none did. In a group with
    a single failure, this keeps the failure's advantage small.
    Keeps the direction, as `grpo` does: if returns take two values, neither negative, the result is a positive multiple
    of the policy gradient. With graded returns a mean near 0 inflates the second term, and the direction can be wrong.

    Args:
        success: an outcome of at least this is a success.
        ddof: delta degrees of freedom of the standard deviation. outcome_weight, turn_weight: weights in the return R.
    Returns: [N, T]. Degenerate: equal returns give exactly 0. A mean of 0 (below 1e-8, or 1e-6 of the largest return)
        makes the second term 0. For a negative mean the absolute value is used.
    """
    returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    outcomes: Array = group.signal("outcomes")
    p = float(np.mean(outcomes >= success))
    certainty = 1.0 - 4.0 * p * (1.0 - p)
    mean = abs(float(returns.mean()))
    share = np.zeros(group.size)
    if mean > max(arithmetic.SMALLEST_STD, arithmetic.SMALLEST_RELATIVE_STD * float(np.abs(returns).max())):
        share = arithmetic.centred(returns, "mean") / mean
    deviation = arithmetic.standardised(returns, baseline="mean", ddof=ddof)
    return arithmetic.broadcast_to_turns(group, (1.0 - certainty) * deviation + certainty * share)
