"""`task_weight`: an outcome component with a number that the task gives, for credit that weights tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import Components


class TaskWeight(Reward):
    """Outcome component `task_weight`, of weight 0: `truth["weight"]`, independent of the agent's actions.

    The wrapper `difficulty_scaled(component='task_weight')` multiplies the credit of the task's episodes by it.
    Source: the `rate` of each sample in the code of GUI-G1, Zhou et al. 2025, arXiv:2505.15810.

    Args:
        key: the key of the number in the truth.
    """

    weights: Mapping[str, float] = {"task_weight": 0.0}

    def __init__(self, key: str = "weight") -> None:
        self.key = key

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the truth has no such number, or a negative one."""
        truth = episode.task.truth
        value = truth.get(self.key) if isinstance(truth, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise JudgeError(
                f"{episode.task.id}: truth[{self.key!r}] must be a number of at least 0 for task_weight, not {value!r}."
            )
        return {"task_weight": float(value)}
