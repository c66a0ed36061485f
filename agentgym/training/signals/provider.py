"""What a source of signals is, and how a batch of groups gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentgym.credit import Group
from agentgym.trajectory import Trajectory

Rows = list[Any]
"""A signal of a batch: one entry per trajectory, shaped as `Group` says."""


class SignalProvider(Protocol):
    """Gives signals for a batch of trajectories."""

    provides: tuple[str, ...]

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        """The signals of every trajectory, in order; those that are not valid get placeholders of the right length."""
        ...

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learn from the batch, after its credit was given. Returns: figures for the log."""
        ...


def with_provided_signals(
    groups: Sequence[Group], played: Sequence[Trajectory], sources: Sequence[SignalProvider], step: int
) -> list[Group]:
    """The groups of a batch, whose trajectories follow one another in `played`, with every source's signals."""
    given: dict[str, Rows] = {}
    for source in sources:
        given.update(source.signals(played, step))
    return with_signal_rows(groups, given)


def with_signal_rows(groups: Sequence[Group], given: Mapping[str, Rows]) -> list[Group]:
    """The groups of a batch with signals of which every row stands where its trajectory does."""
    found, at = [], 0
    for group in groups:
        here: dict[str, Any] = {name: rows[at : at + group.size] for name, rows in given.items()}
        found.append(group.with_signals(**here) if here else group)
        at += group.size
    return found
