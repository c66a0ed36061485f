"""Reinforcement learning with turn-level credit, from the recipe's [train] section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from agentgym.credit import Estimator
from agentgym.evaluation.runner import note_held_out_use
from agentgym.policy.adapters import has_adapter
from agentgym.policy.contract import Policy
from agentgym.policy.logit_hooks.contract import TrainedHookMaker
from agentgym.policy.lora_options import LoraOptions
from agentgym.policy.rendering import TemplateRenderer
from agentgym.rollout.engine import ReportingEngine
from agentgym.storage.adaptations import AdaptationMark, joined
from agentgym.task import TaskSet
from agentgym.training.checkpoints import HEALTHY, latest_checkpoint, step_of
from agentgym.training.gatherers import Gatherer, WrappedGatherer, make_gatherer, play_groups
from agentgym.training.gatherers.branching import Branching
from agentgym.training.loss.entropy_history import EntropyHistoryCallback
from agentgym.training.loss.role_order import RoleOrder, RoleRotation
from agentgym.training.model.grpo_config import grpo_config
from agentgym.training.model.model_failures import out_of_memory_named
from agentgym.training.model.models import FINAL, restore, save_final, train_from
from agentgym.training.model.reference import ReferenceCallback, reference_of
from agentgym.training.model.sharding import is_sharded
from agentgym.training.model.signal_to_noise import GroupGradients, SignalToNoiseCallback
from agentgym.training.monitoring.callbacks import (
    CheckpointCompleteCallback,
    CollapseGuardCallback,
    LoggingCallback,
    ValidationCallback,
    success_reached_at,
)
from agentgym.training.monitoring.collapse_guard import CollapseGuard
from agentgym.training.monitoring.credit_audit import CreditLog
from agentgym.training.objectives import TrlLoss, make_objective, make_terms
from agentgym.training.parts import TrainingRun
from agentgym.training.recipe.adapt_section import ADAPT
from agentgym.training.recipe.episode_section import parse_hooks
from agentgym.training.rollouts.rollouts import Rollouts
from agentgym.training.samplers import Sampler, restore_sampler, sampler_of
from agentgym.training.signals.provider import Checkpointed, SignalProvider
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage, define_stage
from agentgym.training.stages.loss_sources import loss_inputs_for
from agentgym.training.stages.measure import validate
from agentgym.training.stages.stored_episodes import expert_episodes
from agentgym.training.stages.streaming import Streaming, streaming
from agentgym.training.turn_grpo import TurnGRPOTrainer
from agentgym.trajectory import Trajectory

STREAM_TITLES = {
    "async/age_mean": "age",
    "async/age_max": "oldest",
    "async/masked": "masked",
    "off_policy/effective_sample_size": "ess",
    "async/episodes": "in flight",
    "async/queued": "queued",
    "async/publish_s": "publish s",
    "pace/episodes_per_s": "episodes/s",
    "pace/tokens_per_s": "tokens/s",
}
"""What is shown of a training whose episodes are played in the background, by metric."""


def _check_experts(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    expert_episodes(stage.name, task_set["train"], trajectories)


@define_stage(section="train", checkpoint=FINAL, plays=True, trains_in_parts=True, check_episodes=_check_experts)
def reinforce_stage(context: RunContext, learner: Learner) -> Learner:
    """Reinforcement learning with turn-level credit, as [train] says.

    The learner's weights are trained in place and saved, from the last complete checkpoint if there is one.
    Returns: the trained model, as it was saved.
    """
    if (adapt := context.recipe.train.adapt) is None:
        return _reinforce(context, learner)
    if adapt.split == "held_out":
        context.processes.share(lambda: _note_adaptation(context, learner))
    words = joined(context.adapted, adapt.describe(context.task_set))
    rollouts = context.rollouts.with_config(reward=adapt.make_reward())
    task_set = adapt.tasks(context.task_set)
    return _reinforce(replace(context, rollouts=rollouts, task_set=task_set, adapted=words), learner)


def _note_adaptation(context: RunContext, learner: Learner) -> None:
    note_held_out_use(
        context.task_set,
        "held_out",
        context.task_set["held_out"],
        policy=learner.policy.name,
        label=f"{context.folder.path.resolve()}/{ADAPT}",
        seed=context.recipe.seed,
    )


def _reinforce(context: RunContext, learner: Learner) -> Learner:
    context.recipe.train.check_tasks(context.task_set)  # those of `tasks_of` are known now
    checkpoints, processes = context.folder.checkpoints, context.processes
    checkpoint = latest_checkpoint(checkpoints)
    last_step = step_of(checkpoint) if checkpoint is not None else -1
    processes.share(lambda: context.folder.forget(("train", "validation"), last_step))
    until = context.recipe.train.until_success
    guard = CollapseGuardCallback(CollapseGuard(context.recipe.guard), context.folder, context.console, processes)
    sampler = _sampler(context, checkpoint)
    context = replace(context, rollouts=_rollouts(context))
    remedy = "Lower train.microbatch_tokens, or set machine.gradient_checkpointing."
    with streaming(context, learner, sampler, checkpoint) as stream, out_of_memory_named("reinforcement", remedy):
        gatherer = _gatherer(context, checkpoint, stream)
        context = replace(context, rollouts=context.rollouts.with_config(**gatherer.rollout_changes()))
        trainer = _make_trainer(context, learner, sampler, gatherer, guard, checkpoint, stream)
        try:
            train_from(trainer, checkpoint, is_last=success_reached_at(context.folder, until) is not None)
        finally:
            if (corrector := trainer.loss_inputs.corrector) is not None:
                context.rollouts.finish(corrector.policy.close())
    processes.share(lambda: gatherer.finish(_training_run(context, learner, checkpoint)))
    learner.gather()
    if guard.stopped and (healthy := checkpoints / HEALTHY).is_dir() and not is_sharded(learner.full_model):
        restore(learner.full_model, healthy)
    model = save_final(learner.full_model, learner.processing_class, checkpoints, processes)
    return context.learner(model, learner.processing_class)


def _rollouts(context: RunContext) -> Rollouts:
    """Return rollouts with the stop rules of [episode], and at each step with the budgets of its schedule."""
    episode, passes = context.recipe.episode, context.recipe.train.passes
    return context.rollouts.with_config(
        stop_if=parse_hooks(episode.stop_if),
        budgets=episode.budgets_at(0),
        schedule=lambda step: {"budgets": episode.budgets_at(step // passes)},
    )


def _training_run(context: RunContext, learner: Learner, checkpoint: Path | None) -> TrainingRun:
    """What the parts of the training may read and use."""
    return TrainingRun(
        train=context.recipe.train,
        seed=context.recipe.seed,
        device=context.device,
        folder=context.folder,
        checkpoint=checkpoint,
        task_set=context.task_set,
        rollouts=context.rollouts,
        policy=learner.policy,
        tokenizer=learner.tokenizer,
        show=partial(context.console.print, markup=False, highlight=False, soft_wrap=True),
    )


def _make_trainer(
    context: RunContext,
    learner: Learner,
    sampler: Sampler | None,
    gatherer: WrappedGatherer,
    guard: CollapseGuardCallback,
    checkpoint: Path | None,
    stream: Streaming | None,
) -> TurnGRPOTrainer:
    recipe, section = context.recipe, context.recipe.train
    estimator, objective = section.make_estimator(), make_objective(section.objective)
    processes = context.processes
    signal_providers = _signal_providers(context, learner, estimator, checkpoint)
    hook_maker = _begin_hook(learner, checkpoint)
    hardware = recipe.episode, recipe.machine, context.folder.checkpoints, context.device, processes
    config = grpo_config(section, *hardware, seed=recipe.seed)
    config.ddp_find_unused_parameters = learner.reads_images  # a batch may show none
    mark = AdaptationMark(context.adapted)
    reference = ReferenceCallback(section.reference)
    entropies, signal_to_noise = EntropyHistoryCallback(), SignalToNoiseCallback()
    title = "reinforcement" if (phase := context.folder.phase("train")) == "train" else phase
    bar = context.progress.add_task(title, total=section.steps * section.passes, line_a_note=True)
    shown_metrics = {"success": "success", "reward": "reward", "calls_ok": "calls ok", "turns": "turns"}
    if stream is not None:
        shown_metrics |= STREAM_TITLES
    if isinstance(context.rollouts.config.engine, ReportingEngine):
        shown_metrics |= {"cluster/nodes": "nodes"}
    logging = LoggingCallback(context.folder, "train", context.progress, bar, shown_metrics)
    make_trainer = partial(
        TurnGRPOTrainer,
        learner.model,
        args=config,
        tasks=list(context.task_set["train"]),
        policy=learner.policy if section.generation == "transformers" else _trl_policy(context, learner),
        rollouts=context.rollouts,
        label=phase,
        estimator=estimator,
        signal_providers=signal_providers,
        failures=section.failures,
        trainable_roles=section.roles.trainable,
        role_order=_role_order(section.roles.order, recipe.policy.lora),
        gather=gatherer,
        credit_callback=CreditLog(section, context.folder, learner.policy, context.rollouts, seed=recipe.seed),
        sampler=sampler if stream is None else stream.sampler,
        before_playing=learner.gather,
        objective=None if isinstance(objective, TrlLoss) else objective,
        terms=make_terms(section.terms),
        kl=section.reference_weight,
        group_gradients=GroupGradients() if section.optimiser.snr_learning_rate else None,
        microbatch_tokens=section.microbatch_tokens,
        processing_class=learner.tokenizer,
        callbacks=[
            *([] if stream is None else [stream.callback]),
            logging,
            ValidationCallback(
                lambda step: reference.note(
                    validate(
                        context,
                        learner,
                        step,
                        section.validate_tasks,
                        "validation",
                        stratum=section.validate_stratum,
                        changes=gatherer.measurement_changes(),
                    )
                ),
                every=section.validate_every,
                until=section.until_success,
                before=section.reference.moves_as == "best",  # what the first one while training is compared with
            ),
            reference,
            entropies,
            *([RoleRotation(every)] if (every := section.roles.rotate_every * section.passes) else []),
            *([signal_to_noise] if section.optimiser.snr_learning_rate else []),
            CheckpointCompleteCallback(sampler, _learning([*signal_providers, hook_maker, gatherer, mark])),
            guard,
        ],
    )
    starting_point = (learner.model, learner.processing_class, context.folder.checkpoints, checkpoint, processes)
    needs_reference = config.beta and not has_adapter(learner.model)
    with reference_of(*starting_point) if needs_reference else nullcontext():
        trainer = make_trainer()
    reference.attach(trainer, checkpoint)
    entropies.history, signal_to_noise.trainer = trainer.entropy_history, trainer
    if trainer.entropy_history is not None and checkpoint is not None:
        trainer.entropy_history.load(checkpoint)
    trainer.loss_inputs = loss_inputs_for(context, learner, trainer)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _role_order(order: Sequence[str], lora: LoraOptions | None) -> RoleOrder | None:
    return RoleOrder(order, lora.roles[0]) if order and lora is not None else None


def _trl_policy(context: RunContext, learner: Learner) -> Callable[[TurnGRPOTrainer], Policy]:
    """A function that makes the policy which samples through the trainer's own backend."""
    from agentgym.training.rollouts.trl_policy import TrlPolicy

    renderer = TemplateRenderer(learner.tokenizer, context.call_format(learner.tokenizer))
    return lambda trainer: TrlPolicy(trainer, renderer)


def _gatherer(context: RunContext, checkpoint: Path | None, stream: Streaming | None) -> WrappedGatherer:
    """What gathers the groups, as it was at a checkpoint, within its wrappers.

    They are played in the background where there is a stream, and grown as trees where the estimator compares branches.
    """
    section = context.recipe.train
    base: Gatherer = play_groups if stream is None else stream.gather
    if "branches" in section.make_estimator().requires:
        base = Branching(section.signals.root_episodes, section.signals.branch_before, context.recipe.seed).grow
    gatherer = make_gatherer(base, section.gather)
    gatherer.read_tasks(context.task_set)
    if checkpoint is not None:
        gatherer.restore(checkpoint)
    return gatherer


def _signal_providers(
    context: RunContext, learner: Learner, estimator: Estimator, checkpoint: Path | None
) -> list[SignalProvider]:
    """What the estimator requires, as it was at a checkpoint."""
    providers = context.signal_providers(learner, estimator)
    for provider in _learning(providers):
        if checkpoint is not None:
            provider.restore(checkpoint)
    return providers


def _learning(parts: Sequence[Any]) -> list[Checkpointed]:
    """Those of some parts whose state a checkpoint keeps."""
    return [part for part in parts if isinstance(part, Checkpointed)]


def _begin_hook(learner: Learner, checkpoint: Path | None) -> Any:
    """The maker of the policy's logit hooks, if it has one; one that follows the training as it was at a checkpoint."""
    hook_maker = getattr(learner.policy, "hook_maker", None)
    if isinstance(hook_maker, TrainedHookMaker):
        if checkpoint is None:
            hook_maker.begin()
        else:
            hook_maker.restore(checkpoint)
    return hook_maker


def _sampler(context: RunContext, checkpoint: Path | None) -> Sampler | None:
    """The recipe's sampler as it was at a checkpoint; None if tasks are only shuffled."""
    recipe = context.recipe
    sampler = sampler_of(recipe.train.sampler, context.task_set["train"], recipe.seed, recipe.tasks.weights)
    if sampler is None:
        return None
    if checkpoint is not None:
        restore_sampler(sampler, checkpoint)
    return sampler
