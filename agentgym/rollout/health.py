"""Ends a run in which one episode after another fails."""

from __future__ import annotations

from collections import Counter

from agentgym.errors import EpisodesFailed
from agentgym.trajectory import Trajectory

_MAX_LISTED = 3


class FailureStreak:
    """The failures in a row of one run.

    Args:
        most: so many failed episodes, one after another in the order of their ends, end the run; None for no such end.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._failed: list[Trajectory] = []

    def too_many_with(self, trajectory: Trajectory) -> list[Trajectory]:
        """Count an episode that has ended. Returns: the failures in a row if they are too many, else nothing."""
        if trajectory.valid:
            self._failed.clear()
            return []
        self._failed.append(trajectory)
        return self._failed if len(self._failed) == self._most else []


def too_many_failures(failed: list[Trajectory], *, is_recorded: bool) -> EpisodesFailed:
    """The error that ends a run, with the causes. `is_recorded`: whether a ledger lets the run be resumed."""
    causes = Counter(t.error or f"no turn was taken ({t.stop_reason})" for t in failed)
    listed = "; ".join(f"{count} x {cause}" for cause, count in causes.most_common(_MAX_LISTED))
    hint = "They will be played again when it is resumed. " if is_recorded else ""
    return EpisodesFailed(
        f"{len(failed)} episodes in a row failed, so the run was stopped: {listed}. {hint}max_failures_in_a_row sets "
        "how many may."
    )
