"""Reads another reward's `success`, for group rewards that need it."""

from __future__ import annotations

from agentgym import JudgeError, Trajectory
from agentgym.reward import SUCCESS


def succeeded(episode: Trajectory, judge: str) -> bool:
    """Return whether the episode's component `success` is above 0.

    Args:
        judge: registered name of the calling reward, for the error.
    Raises: JudgeError if no reward judged `success`.
    """
    if SUCCESS not in episode.outcome:
        raise JudgeError(
            f"{judge} needs the component 'success', which {episode.task.id} does not have. Combine it with a reward "
            "that judges the answer."
        )
    return episode.outcome[SUCCESS] > 0
