"""From the trajectories of a batch to one advantage per turn. No torch: the same numbers in a trainer and in a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from agentgym.credit import Group, batch_advantages
from agentgym.evaluation.failures import Treatment
from agentgym.training.failure_masks import apply_failure_masks
from agentgym.training.signals.provider import Rows, with_signal_rows
from agentgym.trajectory import Trajectory


def batch_credit(
    trajectories: Sequence[Trajectory],
    estimator: Callable[[Group], list[np.ndarray]],
    *,
    group_size: int,
    signals: Mapping[str, Rows],
    train_version: int,
    failures: Mapping[str, Treatment],
) -> list[np.ndarray]:
    """Estimate the advantages of a batch.

    Args:
        trajectories: groups of `group_size`, one after another.
        signals: by name, one entry per trajectory: what the estimator requires and the records do not hold.
        train_version: version of the weights that will learn from the batch.
        failures: treatments of failures that differ from the table in agentgym.evaluation.failures.
    Returns: one [T] float64 array per trajectory, T its turns.
    Raises: CreditError, MissingSignalError from the estimator.
    """
    starts = range(0, len(trajectories), group_size)
    groups = [Group.from_trajectories(trajectories[start : start + group_size]) for start in starts]
    groups = [replace(group, train_version=train_version) for group in with_signal_rows(groups, signals)]
    credit = [advantages for group in batch_advantages(estimator, groups) for advantages in group]
    return apply_failure_masks(trajectories, credit, failures)
