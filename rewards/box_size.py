"""`box_size`: whether the box has the right size. Trained on hits alone, boxes shrink; on IoU alone, they grow."""

from __future__ import annotations

from agentgym import Reward, Trajectory
from agentgym.reward import Components

from .boxes import answered_box, inside, true_box


class BoxSize(Reward):
    """Outcome component `box_size`, 0 to 1: the boxes' smaller width over their larger, times the same of heights.

    A box whose centre misses the target gets 0. An episode without a box has no component.
    Source: rewarding the size in addition to hit and IoU: GUI-G1, Zhou et al. 2025, arXiv:2505.15810. This product is
        our choice: it is 1 only for the right size, and independent of the box's position.
    """

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no `truth["box"]`."""
        truth, box = true_box(episode, "box_size"), answered_box(episode)
        if box is None:
            return {}
        if not inside(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), truth):
            return {"box_size": 0.0}
        size = 1.0
        for side in (0, 1):
            length, true_length = box[side + 2] - box[side], truth[side + 2] - truth[side]
            size *= min(length, true_length) / max(length, true_length)
        return {"box_size": size}
