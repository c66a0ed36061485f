"""Entropy weights: turns in which the policy was uncertain count more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt

from agentgym.credit import Array, BiasClass, Group
from agentgym.credit.wrappers import Estimate, define_wrapper
from agentgym.options import Share, Weight


def _bias(base: BiasClass, options: Mapping[str, Any]) -> BiasClass:
    return "heuristic"


@define_wrapper(
    source="bonus: Cheng et al. 2025, arXiv:2506.14758; top: Wang et al. 2025, arXiv:2506.01939 (80/20). Both are for "
    "tokens there, for turns by their mean entropy here",
    requires=("entropies",),
    bias=_bias,
)
def entropy_weighted(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    mode: Literal["bonus", "top"] = "bonus",
    weight: Weight = 0.4,
    limit: Annotated[float, Gt(1)] = 2.0,
    share: Share = 0.2,
) -> list[Array]:
    """Make advantages larger where the policy was uncertain ("bonus"), or 0 where it was not ("top").

    "bonus": A + min(weight * H, |A| / limit), H the turn's mean entropy per token: the sign never changes, and an
    advantage of 0 stays 0. "top": A for the given share of the group's turns with the highest entropy, 0 for the rest.

    Args:
        weight: weight of H (nats) in the bonus; 0 is the wrapped estimator, bit for bit.
        limit: above 1; the bonus is at most |A| / limit.
        share: the share of turns that "top" keeps, at least one turn; ties are all kept. 1 keeps every turn.
    Returns: as the wrapped estimator.
    """
    weighted = []
    for group, advantages in zip(groups, estimate(groups), strict=True):
        entropies = np.where(group.turn_mask, group.signal("entropies"), 0.0)
        if mode == "bonus":
            weighted.append(advantages + np.minimum(weight * entropies, np.abs(advantages) / limit))
        else:
            ordered = np.sort(entropies[group.turn_mask])[::-1]
            least = ordered[max(int(np.ceil(share * len(ordered))), 1) - 1]
            weighted.append(np.where(entropies >= least, advantages, 0.0))
    return weighted
