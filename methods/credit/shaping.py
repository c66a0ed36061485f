"""Join credit that compares a trajectory's own turns, such as potentials, with credit that compares trajectories."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit import Array, Baseline, Group, Scale, arithmetic


def forward_fill(numbers: Array) -> Array:
    """Replace every missing entry with the last known one before it, or 0 if there is none. Returns: [N, T].

    The result at a turn depends only on the past, so it may be part of a baseline.
    """
    known = ~np.isnan(numbers)
    columns = np.maximum.accumulate(np.where(known, np.arange(numbers.shape[1]), -1), axis=1)
    filled = np.take_along_axis(numbers, np.maximum(columns, 0), axis=1)
    return np.where(columns >= 0, filled, 0.0)


def above_others(scores: Array, scale: Scale, *, ddof: int) -> Array:
    """Return each score [N] minus the mean of the others ("none", as `rloo`), or standardised ("std", as `grpo`)."""
    return (
        arithmetic.centred(scores, "loo")
        if scale == "none"
        else arithmetic.standardised(scores, baseline="mean", ddof=ddof)
    )


def shaped_advantages(
    group: Group,
    potentials: Array,
    *,
    weight: float,
    gamma: float,
    baseline: Baseline,
    outcome_weight: float,
    turn_weight: float,
) -> Array:
    """Return [N, T] `return_to_go` of r_k + weight * (gamma * Phi_{k+1} - Phi_k), with Phi = 0 after the last turn.

    From turn k on the added terms telescope to -weight * Phi_k for any gamma, because Phi is 0 at the end. This number
    was known before the turn, so it is a further baseline and leaves the expected gradient unchanged.

    Args:
        potentials: [N, T] before each turn; in place of a missing one the last known one is used, or 0 if there is
            none.
    """
    before = weight * forward_fill(potentials)
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    return arithmetic.subtract_index_baseline(turn_returns - before, returns - before[:, 0], group.turn_mask, baseline)


def add_turn_credit(
    group: Group,
    phi: Array,
    credit: Literal["added", "returned"],
    credit_weight: float,
    scale: Scale,
    outcome_weight: float,
    turn_weight: float,
) -> Array:
    """Return [N, T] the outcome's advantage joined with credit phi [N, T] that compares a trajectory's own turns.

    "added": A_i + credit_weight * (phi_k - mean phi), so that a trajectory's turns still average to A_i.
    "returned": `return_to_go` with phi_k as rewards; the last turn gets the rest of the return.
    """
    returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    if credit == "returned":
        before = np.where(group.last_turn, 0.0, credit_weight * phi)
        rewards = np.where(group.last_turn, (returns - before.sum(axis=1))[:, None], before)
        turn_returns = arithmetic.discounted_sums(rewards, 1.0)
        filled: Array = np.nan_to_num(arithmetic.subtract_index_baseline(turn_returns, returns, group.turn_mask, "loo"))
        return filled
    above = above_others(returns, scale, ddof=1)
    mean = np.where(group.turn_mask, phi, 0.0).sum(axis=1) / group.turns
    joined: Array = np.nan_to_num(above)[:, None] + credit_weight * (phi - mean[:, None])
    return joined
