"""Top tokens: train only those tokens that have much credit and at which the policy was uncertain."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit import Array, Group
from agentgym.credit.wrappers import define_token_weights, pad_tokens
from agentgym.options import Share, WholeNumber


@define_token_weights(
    source="D3S, Wang et al. 2025, arXiv:2509.22115, by its abstract: the tokens with the highest |A| * H, and a share "
    "that grows; that it grows evenly, and the default share: our own",
    requires=("token_entropies",),
)
def top_tokens(
    group: Group,
    advantages: Array,
    *,
    share: Share = 0.2,
    final_share: Share = 1.0,
    steps: WholeNumber = 0,
    within: Literal["trajectory", "group"] = "trajectory",
) -> Array:
    """1 for the given share of own tokens with the highest |A_ik| * H_ikl, H the entropy in nats; 0 for the others.

    Args:
        share: the share of tokens that is trained, at least one token; ties are all trained. 1 trains every token.
        final_share: the share after `steps` optimiser steps, approached linearly; unused with `steps = 0`.
        within: the set of tokens of which the share is trained. With "group", trajectories with larger advantages get
            more of the trained tokens.
    Returns: [N, T, L] weights.
    """
    done = min((group.train_version or 0) / steps, 1.0) if steps else 0.0
    current = share + (final_share - share) * done
    entropies = pad_tokens(group, group.signal("token_entropies"), otherwise=0.0)
    is_own = np.arange(entropies.shape[2]) < np.nan_to_num(group.signal("lengths"))[:, :, None]
    is_own &= group.turn_mask[:, :, None]
    influence = np.abs(np.where(group.turn_mask, advantages, 0.0))[:, :, None] * entropies
    weights = np.zeros(entropies.shape)
    for rows in [slice(None)] if within == "group" else [slice(i, i + 1) for i in range(group.size)]:
        ordered = np.sort(influence[rows][is_own[rows]])[::-1]
        if len(ordered):
            least = ordered[max(int(np.ceil(current * len(ordered))), 1) - 1]
            weights[rows] = is_own[rows] & (influence[rows] >= least)
    return weights
