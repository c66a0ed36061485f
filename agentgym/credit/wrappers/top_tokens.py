"""Token selection: of an episode, only the tokens with the greatest advantage times entropy are trained on."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Gt, Le

from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.credit.wrappers.contract import define_token_weights, weights_of_tokens


@define_token_weights(
    source="the token part of D3S (2025), which selects by |A| * H; from a description, not checked against its code",
    requires=("token_entropies",),
)
def top_tokens(group: Group, advantages: Array, *, share: Annotated[float, Gt(0), Le(1)] = 0.5) -> Array:
    """A_ik on the tokens of episode i with the greatest |A_ik| * H_ikl, H the entropy at the token; 0 on the others.

    So many are chosen as are `share` of the episode's tokens, rounded up; of equal ones the first. Which tokens have
    a gradient depends on the outcome, so no bias class is claimed.

    Args:
        share: above 0; with 1 every token keeps the advantage of its turn.
    Returns: [N, T, L] weights, 0 or 1.
    """
    entropies = weights_of_tokens(group, group.signal("token_entropies"), otherwise=-np.inf)
    of_turns = np.abs(np.where(group.turn_mask, advantages, 0.0))[:, :, None]
    scores = np.where(np.isneginf(entropies), -np.inf, of_turns * np.maximum(entropies, 0.0))
    weights = np.zeros(scores.shape)
    for own, score in zip(weights.reshape(group.size, -1), scores.reshape(group.size, -1), strict=True):
        tokens = int(np.isfinite(score).sum())
        own[np.argsort(-score, kind="stable")[: int(np.ceil(share * tokens))]] = 1.0
    return weights
