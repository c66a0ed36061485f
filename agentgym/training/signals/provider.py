"""SignalProvider and Checkpointed, the protocols of signal providers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agentgym.trajectory import Trajectory

SignalRows = list[Any]
"""One signal of a batch: one entry per trajectory, with the shape that `Group` defines."""


class SignalProvider(Protocol):
    """Computes signals for a batch of trajectories.

    Attributes:
        provides: names of the signals.
    """

    provides: tuple[str, ...]

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, SignalRows]:
        """Return the signals of all trajectories in order, with placeholders of the same shape for invalid ones."""
        ...

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learn from the batch after its credit has been estimated. Returns: metrics."""
        ...


@runtime_checkable
class Checkpointed(Protocol):
    """A provider that learns and saves its state in checkpoints."""

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder."""
        ...

    def restore(self, folder: Path) -> None:
        """Restore the state from a checkpoint's folder."""
        ...
