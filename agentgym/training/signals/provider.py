"""What a provider of signals is, and how the groups of a batch get its signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentgym.credit import Group
from agentgym.trajectory import Trajectory

Rows = list[Any]
"""One signal of a batch: one entry per trajectory, shaped as `Group` says."""


class SignalProvider(Protocol):
    """Computes signals for a batch of trajectories.

    Attributes:
        provides: names of the signals.
    """

    provides: tuple[str, ...]

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        """Return the signals of every trajectory, in order; invalid trajectories get placeholders of the same shape."""
        ...

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learn from the batch after its credit was estimated. Returns: metrics."""
        ...


def with_signal_rows(groups: Sequence[Group], signals: Mapping[str, Rows]) -> list[Group]:
    """Return the groups of a batch with signals whose rows are in the order of the groups' trajectories."""
    completed, start = [], 0
    for group in groups:
        rows: dict[str, Any] = {name: column[start : start + group.size] for name, column in signals.items()}
        completed.append(group.with_signals(**rows) if rows else group)
        start += group.size
    return completed
