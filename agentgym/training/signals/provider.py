"""What a provider of signals is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from agentgym.trajectory import Trajectory

SignalRows = list[Any]
"""One signal of a batch: one entry per trajectory, shaped as `Group` says."""


class SignalProvider(Protocol):
    """Computes signals for a batch of trajectories.

    Attributes:
        provides: names of the signals.
    """

    provides: tuple[str, ...]

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, SignalRows]:
        """Return the signals of every trajectory, in order; invalid trajectories get placeholders of the same shape."""
        ...

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learn from the batch after its credit was estimated. Returns: metrics."""
        ...


@runtime_checkable
class Checkpointed(Protocol):
    """What learns beside the policy, and whose state a checkpoint keeps."""

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint."""
        ...

    def restore(self, folder: Path) -> None:
        """Continue as at a checkpoint."""
        ...
