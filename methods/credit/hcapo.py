"""HCAPO: the outcome's advantage, plus each turn's return refined by the model's own hindsight."""

from __future__ import annotations

import numpy as np

from agentgym import CreditError
from agentgym.credit import Array, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight

from .shaping import above_others


@define_estimator(
    requires=("outcomes", "hindsight"),
    bias="heuristic",
    source="after the abstract of Tan et al. 2026, arXiv:2603.08754 (HCAPO); the formula is not confirmed against it",
)
def hcapo(
    group: Group,
    *,
    credit_weight: Weight = 1.0,
    lowest: Positive = 0.5,
    highest: Positive = 2.0,
    gamma: Share = 1.0,
    scale: Scale = "none",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = A_i + credit_weight * (Q_ik - mean Q_k of the others), Q_ik = clip(rho_ik, lowest, highest) * G_ik.

    rho_ik = exp(hindsight) is how much likelier the model finds the turn once told the outcome. This is our reading of
    the paper's abstract, which describes refined step Q-values and an advantage of two scales; the rest of the paper
    was not read.

    Args:
        credit_weight: weight of the turns; with 0 the result is the outcome's advantage, bit for bit.
        lowest, highest: bounds of rho.
        gamma: decay per turn of the return-to-go G.
        scale: "std" divides A_i and Q by the standard deviation of the returns.
    Returns: [N, T], reward units for scale "none".
    Degenerate: equal Q at an index add 0; at an index that only one trajectory reached, the baseline is the mean
        episode return of the other trajectories.
    """
    if lowest > highest:
        raise CreditError(f"lowest = {lowest} is above highest = {highest}. Set lowest <= highest.")
    returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    ratio = np.exp(np.clip(np.where(group.turn_mask, group.signal("hindsight"), 0.0), np.log(lowest), np.log(highest)))
    refined = arithmetic.subtract_index_baseline(ratio * turn_returns, returns, group.turn_mask, "loo")
    if scale == "std":
        refined = arithmetic.divide_by_std(refined, arithmetic.stable_std(returns, ddof=ddof))
    return above_others(returns, scale, ddof=ddof)[:, None] + credit_weight * refined
