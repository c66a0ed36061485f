"""Common code of `prefer` and `rank`: checks, the reference's scores, training, the checkpoint."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Sequence

from agentgym.errors import RecipeError
from agentgym.training.checkpoints import latest_checkpoint, step_of
from agentgym.training.model.model_failures import DivergenceCallback
from agentgym.training.model.models import load_saved, save_model
from agentgym.training.monitoring.callbacks import LoggingCallback
from agentgym.training.preferences.losses import RowsLoss
from agentgym.training.preferences.scored_rows import ScoredRow, fixed_scores
from agentgym.training.preferences.trainer import RowGroup, train_on_groups
from agentgym.training.recipe.stage_options import LearningSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage

COMPARED = "compared"
"""Name of the checkpoint of a finished stage."""
STEPS = "compared_steps"
"""Name of the folder with the checkpoints from which an interrupted stage resumes."""
LAST_ROUND = "last_round"
"""Name of the reference that is the policy at the start of the stage."""


def check_compares(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    """Raise RecipeError if the stage can never compare two episodes, or log-probabilities would be wrong."""
    check_whole_distribution(stage)
    stages = {planned.name: planned for planned in earlier}
    sizes = [getattr(stages[source.label].section, "group_size", 1) for source in stage.sources if not source.run]
    if len(stage.sources) == 1 and sizes == [1]:
        raise RecipeError(
            f"[[stage]] {stage.name!r} compares episodes of the same task, and {stage.sources[0].label!r} plays one of "
            "each. Give that stage a group_size of 2 or more."
        )


def check_whole_distribution(stage: PlannedStage) -> None:
    """Raise RecipeError for a logit hook, under which log-probabilities would be wrong."""
    if stage.recipe.policy.logit_hook is not None:
        raise RecipeError(
            f"[[stage]] {stage.name!r} compares the log-probabilities of the whole distribution, which "
            f"policy.logit_hook = {stage.recipe.policy.logit_hook!r} restricts. Leave out one of them."
        )


def check_learner(context: RunContext, learner: Learner) -> None:
    """Raise RecipeError for a model that reads images: rows hold only tokens."""
    if learner.reads_images:
        raise RecipeError(f"[[stage]] {context.stage!r} compares rows of tokens, and this policy reads images.")


def reference_scores(
    context: RunContext, learner: Learner, rows: Sequence[ScoredRow], reference: str, microbatch_tokens: int
) -> list[float]:
    """Return the rows' scores under the reference: the policy at the stage's start, or an earlier stage's."""
    if reference == LAST_ROUND:
        return fixed_scores(learner.model, rows, microbatch_tokens)
    folder = context.earlier_checkpoints[reference]
    model, _ = load_saved(context.recipe.policy, folder, context.device)
    scores = fixed_scores(model, rows, microbatch_tokens)
    del model
    gc.collect()
    return scores


def learn(
    context: RunContext, learner: Learner, groups: Sequence[RowGroup], loss: RowsLoss, section: LearningSection
) -> Learner:
    """Train on groups of rows and save the checkpoint."""
    folder = context.folder.checkpoints / STEPS
    context.processes.share(lambda: context.folder.forget((context.stage,), step_of(latest_checkpoint(folder))))
    bar = context.progress.add_task(context.stage, total=section.steps, line_a_note=True)
    noted = {"loss": "loss", "accuracy": "accuracy", "misordered": "misordered"}
    train_on_groups(
        learner.model,
        groups,
        loss,
        section,
        folder=folder,
        seed=context.recipe.seed,
        callbacks=[
            LoggingCallback(context.folder, context.stage, context.progress, bar, noted),
            DivergenceCallback(context.stage, f"the learning_rate of the stage {context.stage!r}"),
        ],
        use_cpu=context.device == "cpu",
        processes=context.processes,
        gradient_checkpointing=context.recipe.machine.gradient_checkpointing,
    )

    def save() -> None:
        save_model(learner.model, learner.processing_class, context.folder.checkpoints / COMPARED)
        shutil.rmtree(folder, ignore_errors=True)

    context.processes.share(save)
    return learner
