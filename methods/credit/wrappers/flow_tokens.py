"""Flow rewards: within an episode, tokens whose hidden states move as in successful episodes count more."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from annotated_types import Gt

from agentgym.credit import Array, Group
from agentgym.credit.wrappers import define_token_weights, pad_tokens
from agentgym.options import Weight


@define_token_weights(
    source="RLFR, arXiv:2510.10201, by the authors' code: a token's velocity deviation, between -1 and 1 within its "
    "row, is subtracted from its reward. As a bounded bonus on the advantage: our own, with our default weight",
    requires=("flow_deviations",),
)
def flow_tokens(
    group: Group, advantages: Array, *, weight: Weight = 0.1, limit: Annotated[float, Gt(1)] = 2.0
) -> Array:
    """A_ik * w_ikl with A_ik * w_ikl = A_ik + clip(weight * r_ikl, -|A_ik| / limit, |A_ik| / limit).

    r is 1 for the token of the episode whose state deviates least from the flow of successful episodes, -1 for the
    token that deviates most, and linear in between. The sign never changes, and an advantage of 0 stays 0.

    Args:
        weight: weight of r; with 0 every token has its turn's advantage.
        limit: above 1; the bonus is at most |A| / limit.
    Returns: [N, T, L] weights between 1 - 1/limit and 1 + 1/limit; 1 in an episode without deviations.
    """
    deviations = pad_tokens(group, group.signal("flow_deviations"), otherwise=np.nan)
    rewards = np.zeros(deviations.shape)
    for row, of_row in zip(rewards, deviations, strict=True):
        known = ~np.isnan(of_row)
        if known.any() and (spread := np.ptp(of_row[known])) > 0.0:
            row[known] = 1.0 - 2.0 * (of_row[known] - of_row[known].min()) / spread
    of_turns = np.where(group.turn_mask, advantages, 0.0)[:, :, None]
    most = np.abs(of_turns) / limit
    bonus = np.clip(weight * rewards, -most, most)
    return 1.0 + np.divide(bonus, of_turns, out=np.zeros_like(bonus), where=of_turns != 0.0)
