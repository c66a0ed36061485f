"""`dynamic_iou`: how well a box fits; 0 below a threshold that rises during training."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym import Reward, Trajectory
from agentgym.reward import Components

from .boxes import answered_box, overlap, true_box


class DynamicIoU(Reward):
    """Outcome component `dynamic_iou`: overlap with `truth["box"]`, 0 to 1, if it reaches the threshold, else 0.

    An episode without a box gets 0. Outside training, the last threshold applies.
    Source: V-Triune, Ma et al. 2025, arXiv:2505.18129, section 3.3; with its thresholds and shares.

    Args:
        thresholds: rising thresholds in [0, 1]. until: for each threshold but the last, the share of training, 0 to 1,
            after which the next one applies.
    """

    def __init__(self, thresholds: Sequence[float] = (0.85, 0.95, 0.99), until: Sequence[float] = (0.10, 0.25)) -> None:
        self.thresholds, self.until = tuple(thresholds), tuple(until)
        rising = sorted(self.thresholds) == list(self.thresholds) and sorted(self.until) == list(self.until)
        if not rising or len(self.until) != len(self.thresholds) - 1 or not all(0 <= v <= 1 for v in self.thresholds):
            raise ValueError(
                f"thresholds = {thresholds} and until = {until} are not valid: the thresholds must rise within [0, "
                "1], and `until` must have one entry fewer."
            )
        self.threshold = self.thresholds[-1]

    def set_progress(self, progress: float) -> None:
        passed = sum(progress >= share for share in self.until)
        self.threshold = self.thresholds[passed]

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no `truth["box"]`."""
        truth, box = true_box(episode, "dynamic_iou"), answered_box(episode)
        fit = 0.0 if box is None else overlap(box, truth)
        return {"dynamic_iou": fit if fit >= self.threshold else 0.0}
