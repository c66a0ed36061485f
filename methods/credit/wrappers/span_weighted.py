"""Spans: within a turn, put its advantage on the tokens of the spans that a reward marked."""

from __future__ import annotations

from typing import Literal

import numpy as np

from agentgym.credit import Array, Group
from agentgym.credit.wrappers import define_token_weights, pad_tokens
from agentgym.options import Weight


@define_token_weights(
    source="after Text2Grad, arXiv:2505.22338, whose spans are token rewards of their own; that they scale the "
    "advantage of their turn: our own",
    requires=("span_values",),
)
def span_weighted(
    group: Group, advantages: Array, *, turns: Literal["punished", "all", "signed"] = "punished", outside: Weight = 0.0
) -> Array:
    """A_ik * v on the tokens of a span with the value v, and A_ik * outside on the other tokens of such a turn.

    A turn without a span is unchanged: each of its tokens has the turn's advantage.

    Args:
        turns: "punished" weighs only turns with a negative advantage, as is right for spans that name what failed: a
            failing line must not be encouraged because the episode went well. "all" weighs every turn with a span.
            "signed" does too, with weight |v| if v and the advantage have the same sign, else 0: a rewarded turn
            encourages what was right in it, a punished turn discourages what was wrong.
        outside: in a turn with spans, the weight of the tokens outside them.
    Returns: [N, T, L] weights.
    """
    values = pad_tokens(group, group.signal("span_values"), otherwise=np.nan)
    is_weighed = ~np.isnan(values).all(axis=2, keepdims=True)
    if turns == "punished":
        is_weighed &= (advantages < 0.0)[:, :, None]
    if turns == "signed":
        values = np.maximum(values * np.sign(advantages)[:, :, None], 0.0)
    return np.where(is_weighed, np.where(np.isnan(values), outside, values), 1.0)
