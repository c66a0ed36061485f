"""List the parts of a training that check their compatibility with the recipe, and make their TrainingPlan."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.task.task_set import TaskSet
from agentgym.training.demonstrate import DEMONSTRATION
from agentgym.training.fit import PlannedPart, TrainingPlan
from agentgym.training.gatherers import make_gatherer, play_groups
from agentgym.training.generation import BackgroundPlay, PlannedHook, TrlGeneration
from agentgym.training.loss_inputs.experts import PlannedExperts
from agentgym.training.loss_inputs.teacher import TeacherScores
from agentgym.training.model.sharding import ShardedModel
from agentgym.training.objectives.planned import PlannedLoss, PlannedReference, planned_losses
from agentgym.training.parts import TrainingPart, make_parts
from agentgym.training.processes import Processes
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.signals.selection import PlannedSignals
from agentgym.training.stages.contract import PlannedStage
from agentgym.training.stages.update_parts import SignalToNoise
from agentgym.training.vllm.check import ServedSampling


def plan_of(stage: PlannedStage, task_set: TaskSet, processes: Processes) -> TrainingPlan:
    """Make the TrainingPlan that the parts of a stage may read. Raises: RecipeError."""
    recipe, reward = stage.recipe, stage.recipe.make_reward(task_set)
    if (adapt := recipe.train.adapt) is not None:
        task_set, reward = adapt.tasks(task_set), adapt.make_reward()
    recorded = [DEMONSTRATION, *(earlier.name for earlier in stage.earlier)]
    return TrainingPlan(
        recipe.train,
        recipe.episode,
        task_set,
        reward,
        processes.count,
        stage.name,
        recorded if stage.stage.section == "train" else None,
        recipe.policy,
        recipe.machine,
        recipe.vllm,
    )


def parts_of(plan: TrainingPlan) -> list[PlannedPart]:
    """List a training's parts in the order they are checked for compatibility. Raises: RecipeError."""
    train = plan.train
    losses = planned_losses(train)
    parts: list[tuple[bool, PlannedPart]] = [
        (plan.policy.logit_hook is not None, PlannedHook()),
        (plan.vllm is not None, ServedSampling()),
        (train.generation == "trl", TrlGeneration()),
        (train.steps > 0, PlannedSignals(train.make_estimator())),
        *((True, part) for part in (*losses, *_inputs(losses, train))),
        (train.steps > 0, PlannedReference(losses)),
        (train.optimiser.snr_learning_rate, SignalToNoise([loss.needs for loss in losses])),
        (True, make_gatherer(play_groups, train.gather)),
        *((True, part) for part in _named_parts(losses, train)),
        (train.is_streamed, BackgroundPlay()),
        (plan.hardware.sharding is not None, ShardedModel()),
    ]
    return [part for is_asked_for, part in parts if is_asked_for]


def _inputs(losses: Sequence[PlannedLoss], train: TrainSection) -> list[PlannedPart]:
    """Return the inputs that losses need and the recipe names, once for each loss that needs them."""
    parts: list[PlannedPart] = []
    for loss in losses:
        if "experts" in loss.needs.rows and train.experts is not None:
            parts.append(PlannedExperts(loss.key))
        if loss.needs.teacher and train.teacher is not None:
            parts.append(TeacherScores(train.teacher, loss.key))
    return parts


def _named_parts(losses: Sequence[PlannedLoss], train: TrainSection) -> list[TrainingPart]:
    """Return the parts of [train.parts] that would be used. Raises: RecipeError."""
    try:
        return make_parts(train.parts, {name for loss in losses for name in loss.needs.from_parts})
    except (CreditError, UnknownNameError, ValueError) as error:
        raise RecipeError(f"[train.parts]: {error}") from error
