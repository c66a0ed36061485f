"""Trying again after the infrastructure failed: how often an episode still may, and what failed so far."""

from __future__ import annotations

from agentgym.rollout.causes import cause_of
from agentgym.trajectory import Trajectory


class Retries:
    """How often an episode may still try again after a failure of the infrastructure, and what it was doing.

    Attributes:
        activity: what is being done now, for error messages: "running the tool 'add' in turn 2".
    """

    def __init__(self, trajectory: Trajectory, allowed: int) -> None:
        self.remaining = allowed
        self.activity = "starting"
        self._noted = trajectory.provenance.retries

    def note(self, activity: str) -> None:
        self.activity = activity

    def take(self, error: Exception) -> bool:
        """Take a retry, if one is left, and note in the record what failed. Returns: whether one was left."""
        if self.remaining <= 0:
            return False
        self.remaining -= 1
        self._noted.append(self.describe(error))
        return True

    def describe(self, error: Exception) -> str:
        return cause_of(error, self.activity)
