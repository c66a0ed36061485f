"""`box_size`: is the box as large as what it stands for? Beside a hit alone, boxes would shrink; beside IoU, grow."""

from __future__ import annotations

from agentgym import Reward
from agentgym.reward import Components, EpisodeView

from .boxes import answered_box, inside, true_box


class BoxSize(Reward):
    """Outcome component `box_size`, 0 to 1, for a box whose middle hits: for both sides shorter by longer, multiplied.

    A box that misses gets 0: its size says nothing. Whoever answers no box has no such component.
    Source: the size constraint beside hit and IoU is that of GUI-G1, Zhou et al. 2025, arXiv:2505.15810; that it is
    this product is our choice: it is 1 for the right size alone and does not depend on where the box lies.
    """

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no `truth["box"]`."""
        truth, box = true_box(episode, "box_size"), answered_box(episode)
        if box is None:
            return {}
        if not inside(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), truth):
            return {"box_size": 0.0}
        size = 1.0
        for side in (0, 1):
            own, wanted = box[side + 2] - box[side], truth[side + 2] - truth[side]
            size *= min(own, wanted) / max(own, wanted)
        return {"box_size": size}
