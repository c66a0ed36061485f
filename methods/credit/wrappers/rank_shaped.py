"""Rank shaping: episodes whose hidden states spread more, or spread faster, than usual count more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt

from agentgym.credit import Array, Group
from agentgym.credit.wrappers import Estimate, define_wrapper
from agentgym.options import Weight

_DEVIATIONS = ("rank_deviations", "rank_velocity_deviations", "rank_acceleration_deviations")


def _requires(options: Mapping[str, Any]) -> tuple[str, ...]:
    return (*_DEVIATIONS, "rank_scales") if options["scale"] == "falling" else _DEVIATIONS


@define_wrapper(
    source="VERL, arXiv:2509.23808, by the authors' code: A + min(relu(bonus), |A| / kappa). Theirs is "
    "scale = 'falling' with train.signals.rank_every = 20; by default the scale is fixed, and turns are the steps",
    requires=_requires,
    bias=lambda base, options: "heuristic",
)
def rank_shaped(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    weight: Weight = 1.0,
    gain: Weight = 1.5,
    limit: Annotated[float, Gt(1)] = 2.0,
    scale: Literal["fixed", "falling"] = "fixed",
) -> list[Array]:
    """A + min(max(weight * (w tanh d_r + (1 - w) tanh d_v), 0), |A| / limit), with w = sigmoid(gain * d_a).

    d_r, d_v and d_a say how far the effective rank of the episode's hidden states, the rank's velocity and its
    acceleration exceed their running means. If the rank accelerates more than usual, the rank itself counts, else its
    velocity. The sign never changes, and an advantage of 0 stays 0.

    Args:
        weight: weight of the bonus; 0 is the wrapped estimator, bit for bit.
        gain: how sharply the acceleration switches between rank and velocity.
        limit: above 1; the bonus is at most |A| / limit.
        scale: "falling" multiplies the weight by 1 minus the running mean success, so that the bonus fades.
    Returns: as the wrapped estimator.
    """
    shaped = []
    for group, advantages in zip(groups, estimate(groups), strict=True):
        rank, velocity, acceleration = (np.nan_to_num(group.signal(name)) for name in _DEVIATIONS)
        share = 1.0 / (1.0 + np.exp(-gain * acceleration))
        weights = weight * (np.nan_to_num(group.signal("rank_scales")) if scale == "falling" else 1.0)
        bonus = np.maximum(weights * (share * np.tanh(rank) + (1.0 - share) * np.tanh(velocity)), 0.0)
        shaped.append(advantages + np.minimum(bonus[:, None], np.abs(advantages) / limit))
    return shaped
