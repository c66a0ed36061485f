"""The checks of `prefer` and `rank`."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym import RecipeError
from agentgym.training.stages import Learner, PlannedStage, RunContext

COMPARED = "compared"
"""Name of the checkpoint of a finished stage."""
LAST_ROUND = "last_round"
"""The value of the option `reference` that means the policy at the start of the stage."""


def check_compares(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    """Raise RecipeError if the stage can never compare two episodes, or if its log-probabilities would be wrong."""
    check_whole_distribution(stage)
    players = stage.players(earlier)
    sizes = [getattr(player.section, "group_size", 1) for player in players]
    if len(stage.sources) == 1 and sizes == [1]:
        raise RecipeError(
            f"[[stage]] {stage.name!r} compares episodes of the same task, but {players[0].name!r} plays only one of "
            "each. Give that stage a group_size of at least 2."
        )


def check_whole_distribution(stage: PlannedStage) -> None:
    """Raise RecipeError for a logit hook, under which log-probabilities would be wrong."""
    if stage.recipe.policy.logit_hook is not None:
        raise RecipeError(
            f"[[stage]] {stage.name!r} compares log-probabilities of the full distribution, but policy.logit_hook = "
            f"{stage.recipe.policy.logit_hook!r} restricts it. Leave one of them out."
        )


def check_learner(context: RunContext, learner: Learner) -> None:
    """Raise RecipeError for a model that reads images: rows hold only tokens."""
    if learner.reads_images:
        raise RecipeError(
            f"[[stage]] {context.stage!r} can compare only text, but this policy reads images. Leave the stage out."
        )
