"""UserRL: one rule scores the episode, another divides its advantage between the turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from agentgym.credit import Array, Baseline, BiasClass, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight

CURVATURE = 2.0


def _bias(options: Mapping[str, Any]) -> BiasClass:
    if options["turn_credit"] != "equalized" or options["score"] != "sum":
        return "biased"
    return "unbiased" if (options["baseline"], options["scale"]) == ("loo", "none") else "direction"


@define_estimator(
    requires=("outcomes",),
    bias=_bias,
    source="arXiv:2509.19736 and its released code, where credit is shared over tokens; turns as the unit: our own",
)
def user_rl(
    group: Group,
    *,
    turn_credit: Literal["equalized", "return_to_go", "exponential"] = "equalized",
    score: Literal["sum", "return_to_go"] = "return_to_go",
    gamma: Share = 0.8,
    baseline: Baseline = "mean",
    scale: Scale = "std",
    ddof: Ddof = 1,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = A_i c_ik / mean_k c_ik: the trajectory's advantage A_i, with the turns weighted by c_ik.

    A_i is the score, normalised over the group (`baseline`, `scale`). The score is the sum of rewards, or the
    discounted return from the first turn on. c_ik is 1 (equalized), the discounted return from turn k on, or 0.5 + 0.5
    (1 - exp(-2 r_ik)) / (1 - exp(-2)) with r in [0, 1] (exponential). The outcome is part of the last turn's reward.
    turn_credit "equalized" with score "sum" is `grpo` and has its bias class; every other choice is biased. If the c of
    a trajectory have both signs, their mean can be near 0, and turns then get many times A_i, with either sign.

    Args:
        turn_credit, score: see above. The paper recommends "equalized" with "return_to_go".
        gamma: decay per turn, in score and credit. baseline, scale, ddof: how the score is normalised. outcome_weight:
            above 0.
    Returns: [N, T]. Degenerate: equal scores give exactly 0; a trajectory whose mean c is 0 (below 1e-8, or 1e-6 of the
        largest) gets 0.
    """
    weights = {"outcome_weight": outcome_weight, "turn_weight": turn_weight}
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, **weights)
    scores = arithmetic.episode_returns(group, **weights) if score == "sum" else turn_returns[:, 0]
    compared = arithmetic.normalise_columns(scores, group.valid, baseline=baseline, scale=scale, ddof=ddof)
    if turn_credit == "equalized":
        share = np.ones(turn_returns.shape)
    else:
        credit = turn_returns if turn_credit == "return_to_go" else _exponential(group, outcome_weight, turn_weight)
        share = np.where(group.turn_mask, credit, 0.0)
        mean = share.sum(axis=1) / group.turns
        tells = np.abs(mean) > np.maximum(
            arithmetic.SMALLEST_STD, arithmetic.SMALLEST_RELATIVE_STD * np.abs(share).max(axis=1)
        )
        share = np.where(tells[:, None], share / np.where(tells, mean, 1.0)[:, None], 0.0)
    return compared[:, None] * share


def _exponential(group: Group, outcome_weight: float, turn_weight: float) -> Array:
    """Return [N, T] the credit c of each turn by its own reward, from 0.5 to 1."""
    rewards = turn_weight * arithmetic.rewards_or_zero(group)
    rewards[np.arange(group.size), group.turns - 1] += outcome_weight * group.signal("outcomes")
    mapped: Array = np.expm1(-CURVATURE * np.clip(rewards, 0.0, 1.0)) / np.expm1(-CURVATURE)
    return 0.5 + 0.5 * mapped
