"""Return-to-go: the return from each turn on, minus the mean of the other trajectories at that turn. The default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.credit.arithmetic import (
    SMALLEST_RELATIVE_STD,
    SMALLEST_STD,
    divide_by_std,
    episode_returns,
    returns_to_go,
    stable_std,
    subtract_index_baseline,
)
from agentgym.credit.contract import BiasClass, define_estimator
from agentgym.credit.group import Group
from agentgym.credit.options import Baseline, Ddof, Scale
from agentgym.credit.signals import Array
from agentgym.number_types import Positive, Share, Weight


def _bias(options: Mapping[str, Any]) -> BiasClass:
    return "unbiased" if (options["baseline"], options["scale"], options["gamma"]) == ("loo", "none", 1) else "biased"


@define_estimator(
    requires=("outcomes",),
    bias=_bias,
    source="per-index return-to-go: arXiv:2511.14846 (GTPO); leave-one-out, its fallback and the pooled scale: our own",
)
def return_to_go(
    group: Group,
    *,
    gamma: Share = 1.0,
    baseline: Baseline = "loo",
    scale: Scale = "none",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = G_ik - mean of G_jk over the other trajectories j that reached turn k.

    G_ik = turn_weight * sum_{l>=k} gamma^(l-k) r_il + outcome_weight * gamma^(K_i-k) o_i. G always
    contains the outcome: turn rewards alone can teach a policy to stop calling tools.
    Where no other trajectory reached turn k, the baseline is the mean of the others' episode returns: a baseline
    computed only from other trajectories leaves the gradient unbiased, but a baseline of 0 would not.

    Args:
        gamma: decay per turn. Below 1 the estimate is of a discounted objective, hence biased.
        baseline: "loo" leaves the turn's own trajectory out; "mean" includes it and shrinks the gradient,
            more on turns that few trajectories reach (biased).
        scale: "std" divides every turn of the group by one pooled standard deviation, in which each trajectory has
            the same weight. One standard deviation per index would inflate small differences between few turns.
            Biased, like every division by a group's own standard deviation; see `grpo`.
        ddof: the ddof of that standard deviation.
        outcome_weight: above 0.
    Returns: [N, T], reward units; in pooled standard deviations for scale "std".
    Degenerate: equal returns at an index give exactly 0 there; with one turn per trajectory it is `rloo`.
    """
    turn_returns = returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    returns = episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    advantages = subtract_index_baseline(turn_returns, returns, group.turn_mask, baseline)
    if scale == "none":
        return advantages
    deviations = subtract_index_baseline(turn_returns, returns, group.turn_mask, "mean")
    return divide_by_std(advantages, _pooled_std(deviations, turn_returns, group, ddof))


def _pooled_std(deviations: Array, turn_returns: Array, group: Group, ddof: int) -> Array:
    """[1] one standard deviation for the group: mean square over each trajectory's turns, then over trajectories."""
    if group.turns.max() == 1:
        # with one turn each, this is exactly the number that `grpo` divides by
        return stable_std(turn_returns, ddof=ddof)
    square: Array = (deviations**2).sum(axis=1) / group.turns
    std = np.sqrt(square.sum() / (group.size - ddof))
    largest = np.abs(np.where(group.turn_mask, turn_returns, 0.0)).max()
    return np.array([std if std > max(SMALLEST_STD, SMALLEST_RELATIVE_STD * largest) else 0.0])
