"""IGPO: a turn's reward is its increase of the right answer's probability; the last turn's reward is the outcome."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agentgym.credit import Array, Ddof, Group, Scale, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight

from .shaping import forward_fill


@define_estimator(
    requires=("outcomes", "gold_logprobs"),
    bias="biased",
    source="Wang et al. 2025, arXiv:2510.14967; both normalisations as in the released code",
    zero_if_equal=False,
)
def igpo(
    group: Group,
    *,
    gain: Literal["prob", "log_prob"] = "prob",
    normalise: Literal["joint", "separate"] = "joint",
    gamma: Share = 1.0,
    scale: Scale = "std",
    ddof: Ddof = 1,
    truncated: Literal["outcome", "gain"] = "outcome",
    outcome_weight: Positive = 1.0,
    gain_weight: Weight = 1.0,
) -> Array:
    """A_ik = sum_{l>=k} gamma^(l-k) z_il, z the standardised rewards p_{l+1} - p_l, and the outcome on the last turn.

    p_l is the probability of the gold answer given everything before turn l. Biased in two ways. The gains sum to p
    before the last turn, which is not subtracted again, so the objective is the outcome plus this p. And subtracting
    the mean adds a constant reward or cost to every turn. `information_gain` is the unbiased form. Turn rewards do not
    count.

    Args:
        gain: "log_prob" takes the increase of log p instead, per token of the answer (`log_prob_diff` in the code).
        normalise: "joint" (the paper) uses one mean and standard deviation over gains and outcomes of all turns of the
            group; "separate" (an option of the released code) normalises gains and outcomes separately.
        gamma: decay per turn.
        scale: "none" only subtracts the mean. ddof: the released code divides by N (0).
        truncated: what the last turn of a truncated trajectory gets; "gain" (the paper: no answer was given) or
            "outcome" as scored.
        outcome_weight: above 0. gain_weight: 0 leaves only the outcome.
    Returns: [N, T], in standard deviations for scale "std".
    Degenerate: if the answer was not scored, the last known p is used; equal rewards give exactly 0.
    """
    logps = forward_fill(group.signal("gold_logprobs"))
    rewards = gain_weight * np.diff(np.exp(logps) if gain == "prob" else logps, axis=1)
    answered = group.last_turn & ~(group.truncated[:, None] & (truncated == "gain"))
    rewards = np.where(answered, outcome_weight * group.signal("outcomes")[:, None], rewards)
    if normalise == "joint":
        advantages = _normalised(rewards, group.turn_mask, scale, ddof)
    else:
        advantages = _normalised(rewards, answered, scale, ddof)
        advantages = advantages + _normalised(rewards, group.turn_mask & ~answered, scale, ddof)
    return arithmetic.discounted_sums(advantages, gamma)


def _normalised(rewards: Array, mask: NDArray[np.bool_], scale: Scale, ddof: int) -> Array:
    """Subtract the mean of the entries in `mask` and, with scale "std", divide by their standard deviation. Returns:
    [N, T], 0 outside the mask.
    """
    column, inside = rewards.reshape(-1, 1), mask.reshape(-1, 1)
    advantages: Array = arithmetic.normalise_columns(column, inside, baseline="mean", scale=scale, ddof=ddof)
    return advantages.reshape(rewards.shape)
