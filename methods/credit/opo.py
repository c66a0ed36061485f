"""OPO: the episode's return minus a length-weighted mean, which approximates the baseline of least variance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.credit import Array, Baseline, BiasClass, Group, arithmetic, define_estimator
from agentgym.options import Weight


def _bias(options: Mapping[str, Any]) -> BiasClass:
    return "unbiased" if options["baseline"] == "loo" else "biased"


@define_estimator(
    requires=("outcomes", "lengths"),
    bias=_bias,
    source="Hao et al. 2025, arXiv:2505.23585; leave-one-out: our own",
    by_turn=False,
)
def opo(group: Group, *, baseline: Baseline = "mean", outcome_weight: Weight = 1.0, turn_weight: Weight = 1.0) -> Array:
    """A_ik = R_i - sum_j L_j R_j / sum_j L_j, the same for every turn; L_j counts the trajectory's own tokens.

    The baseline of least variance weighs each return by the squared norm of its score; the number of tokens
    approximates this norm. Biased as published: a trajectory's own length, which depends on its actions, enters its
    baseline, so a parameter whose true gradient is 0 gets a gradient.

    Args:
        baseline: "mean" is as published; "loo" leaves out the trajectory itself, which is unbiased.
        outcome_weight, turn_weight: R_i = outcome_weight * o_i + turn_weight * sum of turn rewards.
    Returns: [N, T], reward units. Degenerate: equal returns give exactly 0; without any tokens, the plain mean is used.
    """
    returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    lengths: Array = np.where(group.turn_mask, group.signal("lengths"), 0.0).sum(axis=1)
    above = returns - returns.min()
    leave_out = baseline == "loo"
    total = lengths.sum() - leave_out * lengths
    plain = (above.sum() - leave_out * above) / (group.size - leave_out)
    mean = np.where(
        total > 0, ((lengths * above).sum() - leave_out * lengths * above) / np.where(total > 0, total, 1), plain
    )
    return arithmetic.broadcast_to_turns(group, above - mean)
