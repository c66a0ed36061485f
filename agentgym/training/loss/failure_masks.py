"""Mask failures in training: some turns of a batch get no advantage, whatever the estimator gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.evaluation.failures import Treatment
from agentgym.storage.failures import count_failures, turn_failures
from agentgym.trajectory import Trajectory

Array = NDArray[np.float64]


def apply_failure_masks(
    trajectories: Sequence[Trajectory], credit: Sequence[Array], treatments: Mapping[str, Treatment]
) -> list[Array]:
    """Return the advantages with zeros where the treatment of a failure asks for them.

    This is biased, as is every mask that depends on what the agent did: turns that lead to a masked failure are neither
    rewarded nor punished for it.

    Args:
        trajectories, credit: the trajectories, and one advantage per turn of each.
        treatments: those that differ from the table's; if there are none, the advantages are returned unchanged.
    """
    masks_turn = {kind for kind, treatment in treatments.items() if treatment == "mask_turn"}
    masks_episode = {kind for kind, treatment in treatments.items() if treatment == "mask_episode"}
    if not masks_turn and not masks_episode:
        return list(credit)
    masked = []
    for trajectory, advantages in zip(trajectories, credit, strict=True):
        if not trajectory.valid:
            masked.append(advantages)
        elif masks_episode & count_failures(trajectory).keys():
            masked.append(np.zeros_like(advantages))
        else:
            is_masked = [bool(masks_turn & set(kinds)) for kinds in turn_failures(trajectory.turns)]
            masked.append(np.where(is_masked, 0.0, advantages))
    return masked
