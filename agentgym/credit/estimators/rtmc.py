"""RTMC: what an action was worth in a state, less what the state was worth, both means over the group's rollouts."""

from __future__ import annotations

import numpy as np

from agentgym.credit.contract import define_estimator
from agentgym.credit.group import Group
from agentgym.credit.label_groups import LabelGroups, group_by_label
from agentgym.credit.options import Decay, PositiveWeight, Weight
from agentgym.credit.returns import episode_returns, returns_to_go
from agentgym.credit.signals import Array, Labels


@define_estimator(
    requires=("outcomes", "state_keys", "action_keys"),
    bias="biased",
    source="arXiv:2604.11037; where the prior enters is not confirmed against it",
    zero_if_equal=False,
)
def rtmc(
    group: Group,
    *,
    gamma: Decay = 1.0,
    prior_weight: PositiveWeight = 1.0,
    outcome_weight: PositiveWeight = 1.0,
    turn_weight: Weight = 1.0,
) -> Array:
    """A_ik = Q(s_ik, a_ik) - V(s_ik), V = (n_s mean_s G + c V_0) / (n_s + c), Q = (n_sa mean_sa G + c V) / (n_sa + c).

    Means are over trajectories, each with its first turn in s (or of a in s). V_0 is the mean return of the
    group, c `prior_weight`: without it a state that one trajectory saw would say that its action was worth nothing.
    Biased: the own return is part of both means, and the prior shrinks what few have seen.

    Args:
        gamma: decay per turn. prior_weight: trajectories that the prior counts for.
        outcome_weight: above 0.
    Returns: [N, T], reward units. Degenerate: equal returns everywhere give exactly 0.
    """
    worth = returns_to_go(group, gamma=gamma, outcome_weight=outcome_weight, turn_weight=turn_weight)
    returns = episode_returns(group, outcome_weight=outcome_weight, turn_weight=turn_weight)
    played, states = group.turn_mask, group.signal("state_keys")
    flat = worth[played]
    low = min(flat.min(), returns.min())  # taken off, so that equal returns leave exactly nothing
    prior = float(np.mean(returns - low))
    value = _smoothed(group_by_label(states), flat - low, np.full(len(flat), prior), prior_weight)
    action_value = _smoothed(
        group_by_label(_together(states, group.signal("action_keys"))), flat - low, value, prior_weight
    )
    found = np.zeros(worth.shape)
    found[played] = action_value - value
    return found


def _smoothed(alike: LabelGroups, scores: Array, prior: Array, weight: float) -> Array:
    """[S] mean of the scores with the same label over first visits, drawn towards the prior."""
    _, first = np.unique(alike.place * alike.size + alike.owner, return_index=True)
    seen = np.zeros(len(scores))
    seen[first] = 1.0
    count = np.bincount(alike.place, seen)[alike.place]
    total = np.bincount(alike.place, seen * scores)[alike.place]
    smoothed: Array = (total + weight * prior) / (count + weight)
    return smoothed


def _together(states: Labels, actions: Labels) -> Labels:
    """State and action as one label; None where either is not known."""
    return tuple(
        tuple(None if None in pair else pair for pair in zip(row, done, strict=True))
        for row, done in zip(states, actions, strict=True)
    )
