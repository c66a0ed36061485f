"""MT-GRPO: each turn's reward compared at its own index over the group, summed from the turn on, plus the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from agentgym.credit import Array, Baseline, BiasClass, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Weight


def _bias(options: Mapping[str, Any]) -> BiasClass:
    if options["scale"] == "std" or options["absent"] == "left_out":
        return "biased"
    return "unbiased" if options["baseline"] == "loo" else "direction"


@define_estimator(
    requires=("outcomes", "turn_rewards"),
    bias=_bias,
    source="Zeng et al. 2025, arXiv:2505.11821; many turns after arXiv:2604.02869 (not confirmed against it); zero "
    "padding: our own",
)
def mt_grpo(
    group: Group,
    *,
    absent: Literal["zero", "left_out"] = "zero",
    baseline: Baseline = "loo",
    scale: Scale = "none",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = turn_weight * sum_{l=k..T} n_l(r_il) + outcome_weight * n(o_i), with r_il = 0 where turn l was not played.

    n compares over *all* trajectories of the group, and every trajectory gets the terms of every index
    up to the longest: a trajectory that stopped before index l counts as reward 0 there. So stopping can be compared
    with going on.

    Args:
        absent: "left_out" compares a turn only with the trajectories that have a reward there, and ends the sum
            at K_i. Biased: the gradient of going on at turn k lacks pi(1 - pi) * E[later turn rewards | going on].
            On the flip problem of the tests the true gradient is +0.0375 and this option gives -0.0250, for any N.
        baseline: n subtracts the mean of the other trajectories ("loo") or of all ("mean": exactly 1 - 1/N of the
            gradient).
        scale: "std" divides each index, and the outcome, by its own standard deviation before the sum, so that every
            index has the same weight, whatever the size of its rewards (biased). Small costs per turn then outweigh the
            outcome: in the guessing game of the tests a policy learns to give up.
        ddof: the ddof of that standard deviation.
        outcome_weight: above 0. turn_weight: 0 leaves only the outcome.
    Returns: [N, T], reward units for scale "none".
    Degenerate: an index where no reward differs adds exactly 0. A missing reward counts as 0; with "left_out" it is in
        no statistic, and an index that only one trajectory reached adds 0.
    """
    if scale == "none" and absent == "zero":  # centring the sum rounds once instead of T times
        turn_returns = arithmetic.returns_to_go(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
        return arithmetic.centred(turn_returns, baseline)
    rewards: Array = group.signal("turn_rewards")
    mask = np.ones(rewards.shape, np.bool_) if absent == "zero" else ~np.isnan(rewards)
    terms = arithmetic.normalise_columns(
        arithmetic.rewards_or_zero(group), mask, baseline=baseline, scale=scale, ddof=ddof
    )
    outcome = arithmetic.normalise_columns(
        group.signal("outcomes"), group.valid, baseline=baseline, scale=scale, ddof=ddof
    )
    return turn_weight * _from_here_on(terms) + outcome_weight * arithmetic.broadcast_to_turns(group, outcome)


mt_grpo_reach = mt_grpo.preset(
    "mt_grpo_reach",
    absent="left_out",
    baseline="mean",
    scale="std",
    source="arXiv:2604.02869, the MT-GRPO row; how absent turns are handled there is not confirmed",
    caution="compares a turn only with the trajectories that reached it, so going on earns nothing for later turn "
    "rewards and the gradient of a continue/stop choice can have the wrong sign. Kept for reproduction: use 'mt_grpo'.",
)


def _from_here_on(terms: Array) -> Array:
    """[N, T] sum of each row from every column to the last."""
    return np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
