"""What training does with failures: which turns of a batch get no advantage, whatever the estimator gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import RecipeError
from agentgym.evaluation.failures import FAILURES, TREATMENTS, Treatment
from agentgym.storage.failures import failures_of, turn_failures
from agentgym.trajectory import Trajectory

Array = NDArray[np.float64]


def check_treatments(wanted: Mapping[str, str]) -> None:
    """Raises: RecipeError for an unknown kind, an unknown treatment, or one that makes no sense for its kind."""
    for kind, treatment in wanted.items():
        if kind not in FAILURES:
            raise RecipeError(f"train.failures.{kind}: there is no such kind. Kinds are {', '.join(FAILURES)}.")
        if treatment not in TREATMENTS:
            raise RecipeError(f"train.failures.{kind} = {treatment!r}: treatments are {', '.join(TREATMENTS)}.")
        if (kind == "failed") != (treatment == "excluded"):
            raise RecipeError(
                f"train.failures.{kind} = {treatment!r}: episodes that failed are always excluded, because nobody "
                "judged them, and nothing else is. Mask other kinds by mask_turn or mask_episode."
            )
        if treatment == "mask_turn" and FAILURES[kind].level == "end":
            raise RecipeError(f"train.failures.{kind} = 'mask_turn': it has no turn of its own. Write mask_episode.")


def apply_failure_masks(
    played: Sequence[Trajectory], credit: Sequence[Array], wanted: Mapping[str, Treatment]
) -> list[Array]:
    """The advantages with zeros where a failure's treatment asks for them.

    Biased, as every mask that depends on what the agent did: what leads there is neither rewarded nor punished.
    Args:
        played, credit: trajectories and one advantage per turn of each.
        wanted: treatments that differ from the table's; with none, the advantages come back as they are.
    """
    masks_turn = {kind for kind, treatment in wanted.items() if treatment == "mask_turn"}
    masks_episode = {kind for kind, treatment in wanted.items() if treatment == "mask_episode"}
    if not masks_turn and not masks_episode:
        return list(credit)
    found = []
    for trajectory, advantages in zip(played, credit, strict=True):
        if not trajectory.valid:
            found.append(advantages)
        elif masks_episode & failures_of(trajectory).keys():
            found.append(np.zeros_like(advantages))
        else:
            hit = [bool(masks_turn & set(kinds)) for kinds in turn_failures(trajectory.turns)]
            found.append(np.where(hit, 0.0, advantages))
    return found
