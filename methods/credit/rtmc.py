"""RTMC: value of the action in a state minus value of the state, both estimated over the group's trajectories."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from agentgym.credit import Array, Group, arithmetic, define_estimator
from agentgym.options import Positive, Share, Weight


@define_estimator(
    requires=("outcomes", "state_keys", "action_keys"),
    bias="biased",
    source="arXiv:2604.11037; where the prior enters is not confirmed against it",
    zero_if_equal=False,
)
def rtmc(
    group: Group,
    *,
    gamma: Share = 1.0,
    prior_weight: Positive = 1.0,
    outcome_weight: Positive = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = Q(s_ik, a_ik) - V(s_ik), V = (n_s mean_s G + c V_0) / (n_s + c), Q = (n_sa mean_sa G + c V) / (n_sa + c).

    Means are over trajectories, each with its first turn in s (or its first a in s). V_0 is the mean return of the
    group, c is `prior_weight`. With c = 0 an action in a state that only one trajectory visited would always get 0.
    Biased: a turn's own return is part of both means, and the prior shrinks the values of rarely visited states.

    Args:
        gamma: decay per turn. prior_weight: number of trajectories that the prior counts for.
        outcome_weight: above 0.
    Returns: [N, T], reward units. Degenerate: equal returns everywhere give exactly 0.
    """
    turn_returns = arithmetic.returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    returns = arithmetic.episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    mask, states = group.turn_mask, group.signal("state_keys")
    flat = turn_returns[mask]
    low = min(flat.min(), returns.min())  # subtracted first, so that equal returns give exactly 0
    prior = float(np.mean(returns - low))
    value = _smoothed(arithmetic.group_by_label(states), flat - low, np.full(len(flat), prior), prior_weight)
    action_value = _smoothed(
        arithmetic.group_by_label(_state_action_labels(states, group.signal("action_keys"))),
        flat - low,
        value,
        prior_weight,
    )
    advantages = np.zeros(turn_returns.shape)
    advantages[mask] = action_value - value
    return advantages


def _smoothed(groups: arithmetic.LabelGroups, scores: Array, prior: Array, weight: float) -> Array:
    """Return [S] the mean score of each label over first visits, shrunk towards the prior."""
    _, first = np.unique(groups.label_index * groups.size + groups.trajectory_index, return_index=True)
    is_first = np.zeros(len(scores))
    is_first[first] = 1.0
    count = np.bincount(groups.label_index, is_first)[groups.label_index]
    total = np.bincount(groups.label_index, is_first * scores)[groups.label_index]
    smoothed: Array = (total + weight * prior) / (count + weight)
    return smoothed


def _state_action_labels(
    states: Iterable[Iterable[Hashable]], actions: Iterable[Iterable[Hashable]]
) -> tuple[tuple[Hashable, ...], ...]:
    """Combine each turn's state and action into one label; None if either is unknown."""
    return tuple(
        tuple(None if None in pair else pair for pair in zip(row, done, strict=True))
        for row, done in zip(states, actions, strict=True)
    )
