"""Reinforcement learning with turn-level credit, from the recipe's [train] section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from transformers import PrinterCallback, TrainerCallback

from agentgym.evaluation.runner import note_held_out_use
from agentgym.storage.adaptations import joined
from agentgym.storage.checkpoints import BEST, HEALTHY, best_validation, latest_checkpoint, step_of
from agentgym.training.model.grpo_config import grpo_config
from agentgym.training.model.model_failures import out_of_memory_named
from agentgym.training.model.models import FINAL, restore, save_final, train_from
from agentgym.training.model.sharding import is_sharded
from agentgym.training.monitoring.callbacks import (
    CheckpointCompleteCallback,
    CollapseGuardCallback,
    UnsharedPromptsCallback,
    success_reached_at,
)
from agentgym.training.objectives.contract import TrlLoss, make_objective, make_terms
from agentgym.training.parts import Adaptation, TrainingPart, TrainingRun, make_parts
from agentgym.training.samplers import sampler_of
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import define_stage
from agentgym.training.stages.reinforce_parts import (
    gatherer_for,
    parts_around,
    scheduled_rollouts,
    training_run,
)
from agentgym.training.stages.selection import check_experts
from agentgym.training.stages.streaming import streaming
from agentgym.training.stages.update_parts import loss_requirements
from agentgym.training.trained_policy import TrlPolicy
from agentgym.training.turn_grpo import TurnGRPOTrainer


def make_trainer(
    context: RunContext, learner: Learner, parts: Sequence[TrainingPart], guard: CollapseGuardCallback
) -> TurnGRPOTrainer:
    """Make the trainer of [train] with the options and callbacks of all parts, and attach the parts to the trainer.

    Args:
        guard: watches the steps. It must be the last callback, because it copies complete checkpoints.
    """
    recipe, section = context.recipe, context.recipe.train
    objective = make_objective(section.objective)
    hardware = recipe.episode, recipe.machine, context.folder.checkpoints, context.device, context.processes
    config = grpo_config(section, *hardware, seed=recipe.seed)
    config.ddp_find_unused_parameters = learner.reads_images  # a batch may have no images
    show = partial(context.console.print, style="dim", markup=False, highlight=False, soft_wrap=True)
    callbacks: list[TrainerCallback] = [callback for part in parts for callback in part.callbacks()]
    callbacks.append(UnsharedPromptsCallback(show))
    trainer = TurnGRPOTrainer(
        learner.model,
        args=config,
        tasks=list(context.task_set["train"]),
        policy=learner.policy
        if section.generation == "transformers"
        else partial(TrlPolicy, renderer=learner.renderer),
        rollouts=context.rollouts,
        label=context.folder.phase("train"),
        estimator=section.make_estimator(),
        failures=section.failures,
        trainable_roles=section.roles.trainable,
        before_playing=learner.gather,
        objective=None if isinstance(objective, TrlLoss) else objective,
        terms=make_terms(section.terms),
        kl=section.reference_weight,
        microbatch_tokens=section.microbatch_tokens,
        processing_class=learner.tokenizer,
        parts=parts,
        callbacks=[*callbacks, CheckpointCompleteCallback(parts), guard],
        **{name: option for part in parts for name, option in part.trainer_options().items()},
    )
    for part in parts:
        part.attach(trainer)
    trainer.remove_callback(PrinterCallback)
    return trainer


@define_stage(section="train", checkpoint=FINAL, plays=True, trains_in_parts=True, check_episodes=check_experts)
def reinforce_stage(context: RunContext, learner: Learner) -> Learner:
    """Reinforcement learning with turn-level credit, according to [train].

    The learner's weights are trained in place, from the last complete checkpoint if there is one, and saved.
    Returns: the trained model, as it was saved.
    """
    section, checkpoints, processes = context.recipe.train, context.folder.checkpoints, context.processes
    needed = {name for needs in loss_requirements(section) for name in needs.from_parts}
    named = make_parts(section.parts, needed)
    context = _with_tasks_of_parts(context, learner, named)
    section.check_tasks(context.task_set)  # `tasks_of` is resolved by now
    checkpoint = latest_checkpoint(checkpoints)
    last_step = step_of(checkpoint) if checkpoint is not None else -1
    processes.share(lambda: context.folder.forget(("train", "validation"), last_step))
    guard = CollapseGuardCallback(context.recipe.guard, context.folder, context.console, processes)
    sampler = sampler_of(section.sampler, context.task_set["train"], context.recipe.seed, context.recipe.tasks.weights)
    context = replace(context, rollouts=scheduled_rollouts(context))
    remedy = "Lower train.microbatch_tokens, or set machine.gradient_checkpointing."
    with streaming(context, learner, sampler, checkpoint) as stream, out_of_memory_named("reinforcement", remedy):
        named = [*gatherer_for(context, stream).parts, *named]
        changes = {name: value for part in named for name, value in part.rollout_changes().items()}
        context = replace(context, rollouts=context.rollouts.with_config(**changes))
        parts = parts_around(context, learner, sampler, stream, named, guard)
        run = training_run(context, learner, checkpoint)
        try:
            for part in parts:
                part.prepare(run)
                if checkpoint is not None:
                    part.restore(checkpoint)
            trainer = make_trainer(context, learner, parts, guard)
            is_over = success_reached_at(context.folder, section.until_success) is not None
            train_from(trainer, checkpoint, is_last=is_over)
        finally:
            for part in parts:
                part.close()
    processes.share(lambda: _finish(parts, run))
    learner.gather()
    if section.ends_with == "best" and (best := best_validation(checkpoints)) is not None:
        restore(learner.full_model, checkpoints / BEST)
        text = "The training ends with the weights of step {}, the best validation (success {:.3f})."
        context.console.print(text.format(*best), markup=False, highlight=False, soft_wrap=True)
    elif guard.stopped and (healthy := checkpoints / HEALTHY).is_dir() and not is_sharded(learner.full_model):
        restore(learner.full_model, healthy)
    model = save_final(learner.full_model, learner.processing_class, checkpoints, processes)
    return context.learner(model, learner.processing_class)


def _with_tasks_of_parts(context: RunContext, learner: Learner, parts: Sequence[TrainingPart]) -> RunContext:
    """Return the context with the tasks that the parts choose, and with a text that says to which of them the policy is
    adapted.
    """
    task_set, adapted = context.task_set, context.adapted
    for part in parts:
        if (adaptation := Adaptation.of(part, context.task_set)) is not None:
            adapted = joined(adapted, str(adaptation))
            context.processes.share(partial(_note_use, context, learner, adaptation))
        task_set = part.training_tasks(task_set)
    return replace(context, task_set=task_set, adapted=adapted)


def _note_use(context: RunContext, learner: Learner, adaptation: Adaptation) -> None:
    note_held_out_use(
        context.task_set,
        adaptation.split,
        adaptation.tasks,
        policy=learner.policy.name,
        label=f"{context.folder.path.resolve()}/adapt",
        seed=context.recipe.seed,
    )


def _finish(parts: Sequence[TrainingPart], run: TrainingRun) -> None:
    for part in parts:
        part.finish(run)
