"""From the trajectories of a training batch to one advantage per turn, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agentgym.credit.contract import batch_advantages
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.errors import ShapeError
from agentgym.trajectory import Trajectory


def groups_of(
    trajectories: Sequence[Trajectory],
    group_size: int,
    *,
    signals: Mapping[str, Sequence[Any]] | None = None,
    train_version: int | None = None,
) -> list[Group]:
    """The groups of a batch in which the trajectories of one task follow each other.

    Args:
        group_size: trajectories per task.
        signals: signals that the records do not hold, by name: one row per trajectory of the batch, in its order.
        train_version: version of the weights that are trained on the batch.
    Raises: ShapeError if the batch does not divide into groups, or if a signal does not have one row per trajectory;
        CreditError as `Group.from_trajectories`.
    """
    count = len(trajectories)
    if group_size < 1 or count % group_size:
        raise ShapeError(f"{count} trajectories do not divide into groups of {group_size}: give whole groups.")
    for name, rows in (signals or {}).items():
        if len(rows) != count:
            raise ShapeError(f"{name} has {len(rows)} rows for a batch of {count} trajectories: give one row each.")
    groups = []
    for start in range(0, count, group_size):
        group = Group.from_trajectories(trajectories[start : start + group_size])
        added = {name: rows[start : start + group_size] for name, rows in (signals or {}).items()}
        groups.append(replace(group.with_signals(**added) if added else group, train_version=train_version))
    return groups


def credit_of(
    trajectories: Sequence[Trajectory],
    estimate: Callable[[Group], list[Array]],
    *,
    group_size: int,
    signals: Mapping[str, Sequence[Any]] | None = None,
    train_version: int | None = None,
) -> list[Array]:
    """One array per trajectory of the batch with one advantage per turn.

    Args:
        estimate: an Estimator, or a function of one group.
        group_size, signals, train_version: see `groups_of`.
    Raises: as `groups_of`, and what the estimator raises.
    """
    groups = groups_of(trajectories, group_size, signals=signals, train_version=train_version)
    return [advantages for group in batch_advantages(estimate, groups) for advantages in group]


def spread_over_tokens(trajectory: Trajectory, advantages: Array, length: int) -> Array:
    """[length] the advantage of each turn on exactly that turn's tokens, counted from the end of the prompt; else 0.

    A failed trajectory gets 0 everywhere.
    """
    tokens: Array = np.zeros(length)
    if trajectory.valid:
        for (start, end), advantage in zip(trajectory.turn_spans(), advantages, strict=True):
            tokens[start:end] = advantage
    return tokens
