"""`grounding`: whether the point, or the centre of the box, is inside the target. Component `success`, 1.0 or 0.0."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Reward, Trajectory
from agentgym.reward import SUCCESS, Components

from .boxes import answered_box, answered_point, inside, overlap, true_box


class Grounding(Reward):
    """Compares the answer with `truth["box"]`. If the answer is a box, there is also the component `iou`, of weight 0.

    Source: click accuracy of ScreenSpot, Cheng et al. 2024, arXiv:2401.10935, section 4.
    """

    weights: Mapping[str, float] = {"iou": 0.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no `truth["box"]`."""
        truth = true_box(episode, "grounding")
        point, box = answered_point(episode), answered_box(episode)
        components = {SUCCESS: float(point is not None and inside(point, truth))}
        return components if box is None else components | {"iou": overlap(box, truth)}
