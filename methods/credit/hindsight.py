"""Hindsight credit by belief: a turn counts more, the more it changed the belief in success."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Gt, Le

from agentgym.credit import Array, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight

from .shaping import above_others


@define_estimator(
    requires=("outcomes", "hindsight"),
    bias="heuristic",
    source="arXiv:2608.05987 (AgentOPSD), the mechanism as its pull request describes it; floor of the prior: our own",
)
def hindsight(
    group: Group,
    *,
    share: Share = 0.5,
    band: Share = 0.5,
    gamma: Share = 1.0,
    success_at: float = 0.5,
    prior_floor: Annotated[float, Gt(0), Le(0.5)] = 0.05,
    scale: Scale = "std",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = A_i * (1 - share + share * w_ik), w_ik = clip(1 + band * z_ik, 1 - band, 1 + band).

    The belief in success starts at B_0, the group's share of successes, and is B_k = sigmoid(logit B_0 + c_k) after
    turn k, with c_k = gamma * c_{k-1} + e_k and e_k the hindsight log-ratio of the turn. z_ik is
    sign(A_i) * (B_k - B_{k-1}), standardised within the trajectory.

    Args:
        share: strength of the reshaping; 0 gives the outcome's advantage, bit for bit. band: how far w may differ from
            1; 0 has the same effect.
        gamma: decay of evidence per turn.
        success_at: an outcome of at least this is a success.
        prior_floor: the least distance that B_0 keeps from 0 and from 1, at which no evidence could change the belief.
        scale, ddof: options of A_i; "std" as in `grpo`, "none" as in `rloo`. outcome_weight, turn_weight: as in those.
    Returns: [N, T]. No turn changes the sign of A_i, nor its size by more than share * band.
    Degenerate: if all turns changed the belief equally, or there is only one, they get A_i.
    """
    returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    above = above_others(returns, scale, ddof=ddof)
    evidence = np.where(group.turn_mask, group.signal("hindsight"), 0.0)
    successes = np.mean(group.signal("outcomes") >= success_at)
    signed_moves = belief_moves(evidence, float(np.clip(successes, prior_floor, 1 - prior_floor)), gamma)
    mask = group.turn_mask.T  # one column per trajectory
    signed_moves = (np.sign(above)[:, None] * signed_moves).T
    z = arithmetic.divide_by_std(
        np.nan_to_num(arithmetic.centred(signed_moves, "mean", mask)),
        arithmetic.stable_std(signed_moves, ddof=0, mask=mask),
    ).T
    weight = np.clip(1 + band * z, 1 - band, 1 + band)
    advantages: Array = above[:, None] * ((1 - share) + share * weight)
    return advantages


def belief_moves(evidence: Array, prior: float, gamma: float) -> Array:
    """Return [N, T] B_k - B_{k-1}: the change of belief at each turn. `evidence` [N, T] in nats, prior in (0, 1)."""
    start = np.log(prior) - np.log1p(-prior)
    log_odds_gain, before = np.zeros(len(evidence)), np.full(len(evidence), prior)
    moves = np.zeros(evidence.shape)
    for k in range(evidence.shape[1]):
        log_odds_gain = gamma * log_odds_gain + evidence[:, k]
        belief = 0.5 * (1 + np.tanh((start + log_odds_gain) / 2))  # the logistic function, without overflow
        moves[:, k] = belief - before
        before = belief
    return moves
