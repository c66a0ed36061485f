"""From the trajectories of a batch to one advantage per token, for any trainer. No torch.

    per_turn = credit_of(trajectories, estimator("return_to_go"), group_size=8)
    per_token = [spread_over_tokens(t, advantages) for t, advantages in zip(trajectories, per_turn, strict=True)]

`TurnGRPOTrainer` calls the same two functions.
"""

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
    starts = range(0, count, group_size)
    groups = [Group.from_trajectories(trajectories[start : start + group_size]) for start in starts]
    return [replace(group, train_version=train_version) for group in with_signal_rows(groups, signals or {})]


def with_signal_rows(groups: Sequence[Group], signals: Mapping[str, Sequence[Any]]) -> list[Group]:
    """The groups of a batch with more signals, given as one row per trajectory of the batch, in its order.

    Raises: ShapeError if a signal does not have one row per trajectory; CreditError as `Group.with_signals`.
    """
    count = sum(group.size for group in groups)
    for name, rows in signals.items():
        if len(rows) != count:
            raise ShapeError(f"{name} has {len(rows)} rows for a batch of {count} trajectories: give one row each.")
    completed, start = [], 0
    for group in groups:
        own_rows: dict[str, Any] = {name: rows[start : start + group.size] for name, rows in signals.items()}
        completed.append(group.with_signals(**own_rows) if own_rows else group)
        start += group.size
    return completed


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
        estimate: an Estimator, or a function of one group. It is not asked about groups in which every episode
            failed: nobody judged them, and their advantages are 0.
        group_size, signals, train_version: see `groups_of`.
    Raises: as `groups_of`, and what the estimator raises.
    """
    groups = groups_of(trajectories, group_size, signals=signals, train_version=train_version)
    judged_groups = [group for group in groups if group.valid.any()]
    estimated = iter(batch_advantages(estimate, judged_groups) if judged_groups else ())
    return [
        advantages
        for group in groups
        for advantages in (next(estimated) if group.valid.any() else [np.zeros(turns) for turns in group.turns])
    ]


def spread_over_tokens(trajectory: Trajectory, advantages: Sequence[float] | Array, length: int | None = None) -> Array:
    """Give each of the agent's own tokens the advantage of its turn.

    Args:
        trajectory: of T turns with token ids.
        advantages: [T], one number per turn.
        length: of the result, to pad the rows of a batch; by default the tokens after the prompt.
    Returns: [length] float64, counted from the end of the prompt; exactly 0 on observations, on padding and everywhere
        in a failed trajectory.
    Raises: ShapeError if there is not one number per turn, or if the tokens after the prompt are more than `length`.
    """
    values = np.asarray(advantages, np.float64)
    if values.shape != (len(trajectory.turns),):
        raise ShapeError(
            f"{trajectory.id!r} has {len(trajectory.turns)} turns, but advantages has the shape {values.shape}: "
            "give one number for each turn."
        )
    token_count = sum(len(turn.token_ids) + len(turn.observation_ids) for turn in trajectory.turns)
    if length is not None and length < token_count:
        raise ShapeError(f"{trajectory.id!r} has {token_count} tokens after the prompt: they do not fit in {length}.")
    tokens: Array = np.zeros(token_count if length is None else length)
    if trajectory.valid:
        for (start, end), value in zip(trajectory.turn_spans(), values, strict=True):
            tokens[start:end] = value
    return tokens
