"""`grounding`: does the point, or the middle of the box, lie in what the task names? `success`, 1.0 or 0.0."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Reward
from agentgym.reward import SUCCESS, Components, EpisodeView

from .boxes import answered_box, answered_point, inside, overlap, true_box


class Grounding(Reward):
    """Compares the answer with `truth["box"]`. `iou` is given only for an answer that is a box, with weight 0.

    Source: click accuracy of ScreenSpot, Cheng et al. 2024, arXiv:2401.10935, section 4.
    """

    weights: Mapping[str, float] = {"iou": 0.0}

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no `truth["box"]`."""
        truth = true_box(episode, "grounding")
        point, box = answered_point(episode), answered_box(episode)
        found = {SUCCESS: float(point is not None and inside(point, truth))}
        return found if box is None else found | {"iou": overlap(box, truth)}
