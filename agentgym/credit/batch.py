"""From the trajectories of a batch to one advantage per token, for any trainer. No torch.

    per_turn = credit_of(trajectories, estimator("return_to_go"), group_size=8)
    per_token = [spread_over_tokens(t, advantages) for t, advantages in zip(trajectories, per_turn, strict=True)]

Where a wrapper weighs single tokens, `batch_credit_of` gives their weights too. `TurnGRPOTrainer` calls
`credit_of_groups` and `spread_over_tokens`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentgym.credit.contract import Credit, Estimator, TokenWeights
from agentgym.credit.group import Group
from agentgym.credit.signals import Array
from agentgym.errors import ShapeError
from agentgym.trajectory.record import Trajectory


def groups_of(
    trajectories: Sequence[Trajectory],
    group_size: int,
    *,
    signals: Mapping[str, Sequence[Any]] | None = None,
    train_version: int | None = None,
) -> list[Group]:
    """Return the groups of a batch in which the trajectories of one task follow each other.

    Args:
        group_size: trajectories per task.
        signals: signals that the records do not hold, by name: one row per trajectory, in the order of the batch.
        train_version: version of the weights that are trained on the batch.
    Raises: ShapeError if the batch does not divide into groups, or if a signal does not have one row per trajectory;
        CreditError as `Group.from_trajectories`.
    """
    count = len(trajectories)
    if group_size < 1 or count % group_size:
        raise ShapeError(f"{count} trajectories cannot be divided into groups of {group_size}. Give whole groups.")
    starts = range(0, count, group_size)
    groups = [Group.from_trajectories(trajectories[start : start + group_size]) for start in starts]
    return [replace(group, train_version=train_version) for group in with_signal_rows(groups, signals or {})]


def with_signal_rows(groups: Sequence[Group], signals: Mapping[str, Sequence[Any]]) -> list[Group]:
    """Return the groups of a batch with more signals, given as one row per trajectory of the batch, in its order.

    Raises: ShapeError if a signal does not have one row per trajectory; CreditError as `Group.with_signals`.
    """
    count = sum(group.size for group in groups)
    for name, rows in signals.items():
        if len(rows) != count:
            raise ShapeError(
                f"{name} has {len(rows)} rows for a batch of {count} trajectories. Give one row per trajectory."
            )
    completed, start = [], 0
    for group in groups:
        own_rows: dict[str, Any] = {name: rows[start : start + group.size] for name, rows in signals.items()}
        completed.append(group.with_signals(**own_rows) if own_rows else group)
        start += group.size
    return completed


@dataclass(frozen=True, slots=True)
class BatchCredit:
    """The credit of a batch: one entry per trajectory, in the order of the batch.

    Attributes:
        advantages: [B] arrays with one advantage per turn.
        token_weights: [B] for each trajectory the factors by which `spread_over_tokens` multiplies its advantages;
            None where every factor is 1.
    """

    advantages: list[Array]
    token_weights: list[TokenWeights | None]


def credit_of(
    trajectories: Sequence[Trajectory],
    estimate: Callable[[Group], list[Array]],
    *,
    group_size: int,
    signals: Mapping[str, Sequence[Any]] | None = None,
    train_version: int | None = None,
) -> list[Array]:
    """Return one array per trajectory of the batch, with one advantage per turn.

    Args:
        estimate: an Estimator, or a function of one group. It is not called for groups in which every episode
            failed: no reward judged them, and their advantages are 0.
        group_size, signals, train_version: see `groups_of`.
    Raises: as `groups_of`; any error of the estimator.
    """
    options: dict[str, Any] = {"group_size": group_size, "signals": signals, "train_version": train_version}
    return batch_credit_of(trajectories, estimate, **options).advantages


def batch_credit_of(
    trajectories: Sequence[Trajectory],
    estimate: Callable[[Group], list[Array]],
    *,
    group_size: int,
    signals: Mapping[str, Sequence[Any]] | None = None,
    train_version: int | None = None,
) -> BatchCredit:
    """Return the result of `credit_of`, with the weights of single tokens if the estimator's wrappers give them."""
    groups = groups_of(trajectories, group_size, signals=signals, train_version=train_version)
    return credit_of_groups(groups, estimate)


def credit_of_groups(groups: Sequence[Group], estimate: Callable[[Group], list[Array]]) -> BatchCredit:
    """Return the credit of the trajectories of some groups, in order; `estimate` as in `credit_of`."""
    judged_groups = [group for group in groups if group.valid.any()]
    estimated = iter(_credits(estimate, judged_groups) if judged_groups else ())
    batch = BatchCredit([], [])
    for group in groups:
        credit = next(estimated) if group.valid.any() else Credit([np.zeros(turns) for turns in group.turns])
        batch.advantages.extend(credit.advantages)
        batch.token_weights.extend(credit.token_weights or [None] * group.size)
    return batch


def _credits(estimate: Callable[[Group], list[Array]], groups: Sequence[Group]) -> list[Credit]:
    if isinstance(estimate, Estimator):
        return estimate.batch(groups)
    return [Credit(estimate(group)) for group in groups]


def spread_over_tokens(
    trajectory: Trajectory,
    advantages: Sequence[float] | Array,
    length: int | None = None,
    *,
    token_weights: TokenWeights | None = None,
) -> Array:
    """Give each of the agent's own tokens the advantage of its turn.

    Args:
        trajectory: a trajectory of T turns with token ids.
        advantages: [T], one number per turn.
        length: the result's length, to pad the rows of a batch; by default the tokens after the first prompt.
        token_weights: for each turn one factor for each of its own tokens; None for 1. Not read if the trajectory
            failed.
    Returns: [length] float64, one per token after the first prompt; exactly 0 on observations, on other prompts, on
        padding and everywhere in a failed trajectory.
    Raises: ShapeError if there is not one number per turn or one weight per token, or if the tokens after the prompt
        are more than `length`.
    """
    values = np.asarray(advantages, np.float64)
    if values.shape != (len(trajectory.turns),):
        raise ShapeError(
            f"{trajectory.id!r} has {len(trajectory.turns)} turns, but its advantages have the shape {values.shape}. "
            "Give one number per turn."
        )
    token_count = sum([len(turn.token_ids) + len(turn.observation_ids) for turn in trajectory.turns])
    token_count += sum([len(row.prompt_ids) for row in trajectory.further_rows])
    if length is not None and length < token_count:
        raise ShapeError(
            f"{trajectory.id!r} has {token_count} tokens after the prompt, which do not fit into length = {length}. "
            "Raise it."
        )
    tokens: Array = np.zeros(token_count if length is None else length)
    if trajectory.valid:
        for (start, end), value in zip(trajectory.turn_spans(), values, strict=True):
            tokens[start:end] = value
        if token_weights is not None:
            _weigh(tokens, trajectory, token_weights)
    return tokens


def _weigh(tokens: Array, trajectory: Trajectory, token_weights: TokenWeights) -> None:
    """Multiply the advantages of a trajectory's tokens by their weights. Raises: ShapeError."""
    counts = [len(turn.token_ids) for turn in trajectory.turns]
    shapes = [np.shape(weights) for weights in token_weights]
    if shapes != [(count,) for count in counts]:
        raise ShapeError(
            f"{trajectory.id!r} has turns of {counts} tokens, but its token_weights have the shapes {shapes}. Give "
            "one number per token of each turn."
        )
    for (start, end), weights in zip(trajectory.turn_spans(), token_weights, strict=True):
        tokens[start:end] *= weights
