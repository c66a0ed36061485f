"""HRPO: the outcome compared over the group, and each turn's own reward compared over all turns of the group."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from agentgym.credit import Array, Baseline, BiasClass, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Weight


def _bias(options: Mapping[str, Any]) -> BiasClass:
    if options["turn_weight"]:
        return "biased"
    return "unbiased" if (options["baseline"], options["scale"]) == ("loo", "none") else "direction"


@define_estimator(
    requires=("outcomes", "turn_rewards"),
    bias=_bias,
    zero_if_equal=False,
    source="MasHost, Yang et al. 2025, arXiv:2506.08507: group-relative advantages and rewards of single actions; how "
    "the latter are scaled is not confirmed",
    caution="pays a turn its own reward alone, so going on earns nothing for later turn rewards and the gradient of a "
    "continue/stop choice can have the wrong sign. Kept for reproduction: use 'mt_grpo'.",
)
def hrpo(
    group: Group,
    *,
    baseline: Baseline = "mean",
    scale: Scale = "std",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = outcome_weight * n(o_i) + turn_weight * m(r_ik); n compares trajectories, m all turns with a reward.

    Biased in two ways: a turn gets no credit for later rewards; and turns are compared whatever their index and the
    length of their trajectory. `mt_grpo` has neither problem.

    Args:
        baseline, scale, ddof: options of both comparisons.
        outcome_weight: above 0. turn_weight: 0 leaves only the outcome.
    Returns: [N, T], in standard deviations for scale "std". Degenerate: a term with equal rewards adds exactly 0; a
        turn without a reward has only the outcome's term; if all outcomes are equal, turns still differ by their
        rewards.
    """
    rewards: Array = group.signal("turn_rewards")
    rewarded = group.turn_mask & ~np.isnan(rewards)
    compare = partial(arithmetic.normalise_columns, baseline=baseline, scale=scale, ddof=ddof)
    actions = compare(np.where(rewarded, rewards, 0.0).reshape(-1, 1), rewarded.reshape(-1, 1))
    outcome = compare(group.signal("outcomes"), group.valid)
    return outcome_weight * arithmetic.broadcast_to_turns(group, outcome) + turn_weight * actions.reshape(rewards.shape)
