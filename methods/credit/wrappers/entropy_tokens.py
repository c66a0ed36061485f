"""Entropy of tokens: within a turn, tokens at which the policy was uncertain count more."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Gt

from agentgym.credit import Array, Group
from agentgym.credit.wrappers import define_token_weights, pad_tokens
from agentgym.options import Weight


@define_token_weights(
    source="Cheng et al. 2025, arXiv:2506.14758: A + min(alpha * H, |A| / kappa) on every token",
    requires=("token_entropies",),
)
def entropy_tokens(
    group: Group, advantages: Array, *, weight: Weight = 0.4, limit: Annotated[float, Gt(1)] = 2.0
) -> Array:
    """A_ik * w_ikl with A_ik * w_ikl = A_ik + min(weight * H_ikl, |A_ik| / limit), H the entropy at the token in nats.

    The sign never changes, and an advantage of 0 stays 0. `entropy_weighted` gives the same bonus to whole turns.

    Args:
        weight: weight of the entropy; with 0 every token has its turn's advantage.
        limit: above 1; the bonus is at most |A| / limit.
    Returns: [N, T, L] weights between 1 - 1/limit and 1 + 1/limit.
    """
    entropies = pad_tokens(group, group.signal("token_entropies"), otherwise=0.0)
    of_turns = np.where(group.turn_mask, advantages, 0.0)[:, :, None]
    bonus = np.minimum(weight * entropies, np.abs(of_turns) / limit)
    return 1.0 + np.divide(bonus, of_turns, out=np.zeros_like(bonus), where=of_turns != 0.0)
