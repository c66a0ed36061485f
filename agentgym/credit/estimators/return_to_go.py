"""Return-to-go: what still came after each turn, above what still came for the others there. The default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.credit.contract import BiasClass, define_estimator
from agentgym.credit.group import Group
from agentgym.credit.options import Baseline, Ddof, Decay, PositiveWeight, Scale, Weight
from agentgym.credit.returns import episode_returns, returns_to_go
from agentgym.credit.signals import Array, Bools
from agentgym.credit.statistics import (
    SMALLEST_RELATIVE_STD,
    SMALLEST_STD,
    baseline_of,
    centred,
    divide_by_std,
    spread,
)


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
    gamma: Decay = 1.0,
    baseline: Baseline = "loo",
    scale: Scale = "none",
    ddof: Ddof = 1,
    outcome_weight: PositiveWeight = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = G_ik - mean of G_jk over the other trajectories j that reached turn k.

    G_ik = turn_weight * sum_{l>=k} gamma^(l-k) r_il + outcome_weight * gamma^(K_i-k) o_i. The outcome is
    always part of it: turn rewards alone can teach a policy to stop calling tools.
    Where nobody else reached turn k, the mean of the others' whole returns stands in: any baseline made
    of other trajectories alone leaves the gradient unbiased, and 0 in its place would not.

    Args:
        gamma: decay per turn. Below 1 the estimate is of a discounted objective, hence biased.
        baseline: "loo" leaves the own trajectory out; "mean" keeps it in and shrinks the gradient,
            more on turns that few reach (biased).
        scale: "std" divides every turn of the group by one pooled spread, in which each trajectory
            weighs the same. Not by one spread per index: few turns that hardly differ would be blown up.
            Biased as dividing by a group's own spread is, see `grpo`.
        ddof: of that spread.
        outcome_weight: above 0.
    Returns: [N, T], reward units; in pooled standard deviations for scale "std".
    Degenerate: no difference at an index gives exactly 0 there; all trajectories of one turn give `rloo`.
    """
    worth = returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    whole = episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    above = subtract_index_baseline(worth, whole, group.turn_mask, baseline)
    if scale == "none":
        return above
    return divide_by_std(
        above, _pooled_spread(subtract_index_baseline(worth, whole, group.turn_mask, "mean"), worth, group, ddof)
    )


def subtract_index_baseline(worth: Array, whole: Array, reached: Bools, baseline: Baseline) -> Array:
    """[N, T] worth minus the baseline of its index, or of the whole returns where nobody else reached it."""
    alone = reached.sum(axis=0) == 1
    above_whole = worth - baseline_of(whole, baseline)[:, None]
    return np.where(reached, np.where(alone, above_whole, centred(worth, baseline, reached)), 0.0)


def _pooled_spread(above_mean: Array, worth: Array, group: Group, ddof: int) -> Array:
    """[1] one standard deviation for the group: mean square over each trajectory's turns, then over trajectories."""
    if group.turns.max() == 1:
        return spread(worth, ddof=ddof)  # one turn each: the very number that `grpo` divides by
    square: Array = (above_mean**2).sum(axis=1) / group.turns
    std = np.sqrt(square.sum() / (group.size - ddof))
    largest = np.abs(np.where(group.turn_mask, worth, 0.0)).max()
    return np.array([std if std > max(SMALLEST_STD, SMALLEST_RELATIVE_STD * largest) else 0.0])
