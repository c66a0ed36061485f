"""Returns of episodes and of turns, from outcomes and turn rewards, in reward units."""

from __future__ import annotations

import numpy as np

from agentgym.credit.group import Group
from agentgym.credit.signals import Array


def rewards_or_zero(group: Group) -> Array:
    """Return [N, T] the turn rewards, 0 for turns without a reward and for padding: only for sums."""
    if group.turn_rewards is None:
        return np.zeros(group.turn_mask.shape)
    return np.where(np.isnan(group.turn_rewards), 0.0, group.turn_rewards)


def episode_returns(group: Group, *, outcome_weight: float = 1.0, turn_weight: float = 1.0) -> Array:
    """Return [N] R_i = outcome_weight * o_i + turn_weight * sum_k r_ik."""
    outcomes: Array = group.signal("outcomes")
    rewards: Array = rewards_or_zero(group).sum(axis=1)
    return turn_weight * rewards + outcome_weight * outcomes


def returns_to_go(group: Group, *, gamma: float = 1.0, outcome_weight: float = 1.0, turn_weight: float = 1.0) -> Array:
    """Return [N, T] the return from each turn on: G_ik = sum_{l>=k} gamma^(l-k) r_il + gamma^(K_i-k) o_i.

    The last turn (k = K_i) gets the outcome undiscounted. Padding after the last turn holds the outcome: a
    trajectory that has ended has no further turn reward, but its outcome is still to come.
    """
    outcomes = outcome_weight * group.signal("outcomes")
    rewards = turn_weight * rewards_or_zero(group)
    to_go = np.empty(rewards.shape)
    following = outcomes
    for k in reversed(range(rewards.shape[1])):
        later = np.where(k == group.turns - 1, outcomes, gamma * following)
        following = np.where(k < group.turns, rewards[:, k] + later, outcomes)
        to_go[:, k] = following
    return to_go


def discounted_sums(terms: Array, decay: float) -> Array:
    """Return, along the last axis, each term plus `decay` times the sum from the next term on; shape of `terms`."""
    sums, following = np.empty(terms.shape), np.zeros(terms.shape[:-1])
    for k in reversed(range(terms.shape[-1])):
        following = terms[..., k] + decay * following
        sums[..., k] = following
    return sums


def broadcast_to_turns(group: Group, per_trajectory: Array) -> Array:
    """Expand [N] to [N, T]: every turn of a trajectory gets the trajectory's number."""
    return np.broadcast_to(per_trajectory[:, None], group.turn_mask.shape)
