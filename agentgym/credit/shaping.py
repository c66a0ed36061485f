"""Potential-based shaping: progress made visible turn by turn, without changing what is best."""

from __future__ import annotations

import numpy as np

from agentgym.credit.group import Group
from agentgym.credit.options import Baseline
from agentgym.credit.return_to_go import above_those_who_reached
from agentgym.credit.returns import episode_returns, returns_to_go
from agentgym.credit.signals import Array


def carried_forward(numbers: Array) -> Array:
    """[N, T] with every missing entry replaced by the last known one before it, 0 where there is none.

    What a turn gets from this depends on its past alone, so it may stand in a baseline.
    """
    known = ~np.isnan(numbers)
    columns = np.maximum.accumulate(np.where(known, np.arange(numbers.shape[1]), -1), axis=1)
    found = np.take_along_axis(numbers, np.maximum(columns, 0), axis=1)
    return np.where(columns >= 0, found, 0.0)


def shaped_advantages(
    group: Group,
    potentials: Array,
    *,
    weight: float,
    gamma: float,
    baseline: Baseline,
    outcome_weight: float,
    turn_weight: float,
) -> Array:
    """[N, T] `return_to_go` of the rewards r_k + weight * (gamma * Phi_{k+1} - Phi_k), with Phi = 0 after the last turn.

    From turn k on the added terms telescope to -weight * Phi_k, whatever gamma: a number that was known
    before the turn, hence another baseline. That the potential ends at 0 is what keeps the gradient.

    Args:
        potentials: [N, T] before each turn; where missing the last known one, 0 before any.
    """
    before = weight * carried_forward(potentials)
    worth = returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    whole = episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    return above_those_who_reached(worth - before, whole - before[:, 0], group.played, baseline)
