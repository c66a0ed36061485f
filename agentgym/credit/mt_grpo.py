"""MT-GRPO: each turn's reward compared at its own index over the group, summed from the turn on, plus the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.credit.declaration import Bias, declare
from agentgym.credit.group import Group
from agentgym.credit.options import Baseline, Ddof, PositiveWeight, Scale, Weight
from agentgym.credit.returns import on_every_turn, returns_to_go, summable_rewards
from agentgym.credit.signals import Array
from agentgym.credit.statistics import centred, compared_at_index, standardised


def _bias(options: Mapping[str, Any]) -> Bias:
    if options["scale"] == "std":
        return "biased"
    return "unbiased" if options["baseline"] == "loo" else "direction"


@declare(
    requires=("outcomes", "turn_rewards"),
    bias=_bias,
    source="Zeng et al. 2025, arXiv:2505.11821; many turns after arXiv:2604.02869 (not confirmed against it); zero "
    "padding: our own",
)
def mt_grpo(
    group: Group,
    *,
    baseline: Baseline = "loo",
    scale: Scale = "none",
    ddof: Ddof = 1,
    outcome_weight: PositiveWeight = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = turn_weight * sum_{l=k..T} n_l(r_il) + outcome_weight * n(o_i), with r_il = 0 where turn l was not played.

    n compares over *all* trajectories of the group, and every trajectory gets the terms of every index
    up to the longest: one that stopped before index l gets what it missed there, minus the mean of r_l.
    That is what makes stopping and going on comparable; `mt_grpo_reach` leaves it out and misleads.

    Args:
        baseline: n subtracts the mean of the others ("loo") or of all ("mean": exactly 1 - 1/N of the gradient).
        scale: "std" divides each index, and the outcome, by its own spread before the sum, so that indices
            count alike however much reward is at stake there (biased).
        ddof: of that spread.
        outcome_weight: above 0. turn_weight: 0 leaves the outcome alone.
    Returns: [N, T], reward units for scale "none".
    Degenerate: an index where no reward differs adds exactly 0. A missing reward counts as 0.
    """
    if scale == "none":  # linear: the sum of centred rewards is the centred sum, one rounding instead of T
        worth = returns_to_go(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
        return centred(worth, baseline)
    terms = standardised(summable_rewards(group), baseline=baseline, ddof=ddof)
    return turn_weight * _from_here_on(terms) + outcome_weight * _outcome_term(group, baseline, scale, ddof)


@declare(
    requires=("outcomes", "turn_rewards"),
    bias="biased",
    source="arXiv:2604.02869, the MT-GRPO row; how absent turns are handled there is not confirmed",
    caution="compares a turn only with the trajectories that reached it, so going on earns nothing for later turn "
    "rewards and the gradient of a continue/stop choice can have the wrong sign. Kept for reproduction: use 'mt_grpo'.",
)
def mt_grpo_reach(
    group: Group,
    *,
    baseline: Baseline = "mean",
    scale: Scale = "std",
    ddof: Ddof = 1,
    outcome_weight: PositiveWeight = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = turn_weight * sum_{l=k..K_i} n_l(r_il) + outcome_weight * n(o_i); n_l compares those that reached turn l.

    Biased: the gradient of going on at turn k lacks pi(1 - pi) * E[later turn rewards | going on]. On the
    two-turn flip MDP of the tests the true gradient is +0.0375 and this gives -0.0250, for any N.

    Args: as `mt_grpo`; the defaults are the published form.
    Returns: [N, T]. Degenerate: an index that only one reached adds 0; a missing reward is in no statistic.
    """
    rewards: Array = group.signal("turn_rewards")
    given = ~np.isnan(rewards)
    terms = compared_at_index(np.where(given, rewards, 0.0), given, baseline=baseline, scale=scale, ddof=ddof)
    return turn_weight * _from_here_on(terms) + outcome_weight * _outcome_term(group, baseline, scale, ddof)


def _outcome_term(group: Group, baseline: Baseline, scale: Scale, ddof: int) -> Array:
    compared = compared_at_index(group.signal("outcomes"), group.valid, baseline=baseline, scale=scale, ddof=ddof)
    return on_every_turn(group, compared)


def _from_here_on(terms: Array) -> Array:
    """[N, T] sum of each row from every column to the last."""
    return np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
