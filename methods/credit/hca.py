"""Hindsight credit assignment: a turn gets the more of the return after it, the likelier the turn made this return."""

from __future__ import annotations

import numpy as np

from agentgym.credit import Array, Group, arithmetic, define_estimator
from agentgym.options import Positive, Weight


@define_estimator(
    requires=("outcomes", "hindsight"),
    bias="biased",
    source="Harutyunyan et al. 2019, arXiv:1912.02503, return-conditional form",
    minimum_group=1,
    zero_if_equal=False,
)
def hca(group: Group, *, outcome_weight: Positive = 1.0, turn_weight: Weight = 1.0) -> Array:
    """A_ik = (1 - 1 / rho_ik) * G_ik, with rho_ik = exp(hindsight) = pi(turn | state, what came) / pi(turn | state).

    The exact policy gradient, if the hindsight probability is the true one given the state before the turn and G_ik,
    and if every return that can follow one turn can follow every other. Otherwise biased: a return that only some turns
    can reach (as if only one action earns a turn reward) never counts for the other turns. A turn that made the return
    neither likelier nor less likely (rho = 1) gets 0. Needs no other trajectory, so a group of one is not 0.

    Args:
        outcome_weight, turn_weight: weights of the outcome and the turn rewards in G_ik.
    Returns: [N, T], reward units. Where the return is 0, so is the advantage: adding a constant to rewards changes the
        noise.
    """
    turn_returns = arithmetic.returns_to_go(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    ratio = np.where(group.turn_mask, group.signal("hindsight"), 0.0)
    advantages: Array = -np.expm1(-ratio) * turn_returns
    return advantages
