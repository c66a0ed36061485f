"""Which part of the reward moves the policy: the share of a batch's advantages that each component causes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agentgym.credit.batch import credit_of_groups
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.errors import CreditError

MOVED_BY = "moved_by/"
"""Prefix of the metrics of a training step with the shares of the components."""
OTHER = "other"
"""The part of the advantages that does not come from the reward, such as from potentials or a bonus for entropy."""


def reward_shares(
    groups: Sequence[Group], estimate: Callable[[Group], list[Array]], advantages: Sequence[Array]
) -> dict[str, float]:
    """Return how much each component of the reward moves the policy, as shares that sum to 1.

    The influence of a component is how much the advantages change without it: the sum of the absolute changes over all
    tokens of the agent. If an estimator is linear in the reward, the changes are the component's own advantages. If it
    divides by the standard deviation of a group, a component that alone varies in the group has all influence there,
    however small its weight.

    Args:
        estimate: an Estimator, or a function of one group.
        advantages: the advantages that it gives to the trajectories of all groups, in order.
    Returns: shares by component, and OTHER if advantages remain without any reward. Empty if nothing has an influence,
        or the estimator rejects groups without one of the components.
    """
    counts = [count for group in groups for count in _token_counts(group)]
    names = sorted({name for group in groups for name in (*_of_outcomes(group), *_of_turns(group))})

    def without(*left_out: str) -> list[Array]:
        return credit_of_groups(
            [_with_components(group, {*names} - {*left_out}) for group in groups], estimate
        ).advantages

    def size(changes: Sequence[Array]) -> float:
        return float(sum([np.abs(change) @ count for change, count in zip(changes, counts, strict=True)]))

    def change(others: Sequence[Array]) -> float:
        return size([now - then for now, then in zip(advantages, others, strict=True)])

    try:
        rest = without(*names)
        influence = {name: change(rest if names == [name] else without(name)) for name in names}
    except CreditError:
        return {}
    if other := size(rest):
        influence[OTHER] = other
    total = sum(influence.values())
    return {name: value / total for name, value in influence.items()} if total else {}


def _of_outcomes(group: Group) -> Mapping[str, Array]:
    return group.outcome_components or {}


def _of_turns(group: Group) -> Mapping[str, Array]:
    return group.components or {}


def _token_counts(group: Group) -> list[Array]:
    """Return the agent's tokens in each turn of each trajectory: 1 without `lengths`, and 0 for a failed trajectory."""
    lengths = np.ones(group.turn_mask.shape) if group.lengths is None else np.maximum(group.lengths, 1)
    return [
        lengths[i, :turns] if valid else np.zeros(turns)
        for i, (turns, valid) in enumerate(zip(group.turns, group.valid, strict=True))
    ]


def _with_components(group: Group, names: set[str]) -> Group:
    """Return a group whose rewards consist of some components alone; the others have the weight 0."""
    given = group.weights or {}
    outcome_parts, turn_parts = _of_outcomes(group), _of_turns(group)
    weights = {name: given.get(name, 1.0) if name in names else 0.0 for name in {*given, *outcome_parts, *turn_parts}}
    changes: dict[str, Any] = {}
    if group.outcomes is not None and outcome_parts:
        outcomes = sum([weights[name] * part for name, part in outcome_parts.items() if name in names])
        changes["outcomes"] = np.where(np.isnan(group.outcomes), np.nan, outcomes)
    if group.turn_rewards is not None and turn_parts:
        rewards = sum([weights[name] * np.nan_to_num(part) for name, part in turn_parts.items() if name in names])
        changes["turn_rewards"] = np.where(np.isnan(group.turn_rewards), np.nan, rewards)
    return replace(group, weights=weights, **changes)
