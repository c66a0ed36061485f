"""The parts of a reinforcement, in order: those that [train] names, and those that every reinforcement has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import override

from agentgym.policy.checkpoint import save_model
from agentgym.policy.logit_hooks.contract import TrainedHookMaker
from agentgym.rollout.engine import ReportingEngine
from agentgym.rollout.rollouts import Rollouts
from agentgym.storage.adaptations import note_adaptations
from agentgym.storage.checkpoints import BEST, RESULT, best_validation
from agentgym.training.gatherers import Gatherer, make_gatherer, play_groups
from agentgym.training.gatherers.contract import WrappedGatherer
from agentgym.training.monitoring.callbacks import CollapseGuardCallback, LoggingCallback, ValidationCallback
from agentgym.training.monitoring.credit_log import CreditLog
from agentgym.training.monitoring.start_distance import StartDistance
from agentgym.training.parts import TrainingPart, TrainingRun
from agentgym.training.recipe.episode_section import parse_hooks
from agentgym.training.samplers import Sampler, restore_sampler, save_sampler
from agentgym.training.signals.provider import SignalProvider, required_providers
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.measure import validate
from agentgym.training.stages.streaming import Streaming
from agentgym.training.stages.update_parts import Reference, input_parts

SHOWN_METRICS = {"success": "success", "reward": "reward", "calls_ok": "calls ok", "turns": "turns"}
"""Metrics shown beside the progress bar, with their titles."""
STREAM_METRICS = {
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
"""Further metrics shown if episodes are played in the background, with their titles."""


def scheduled_rollouts(context: RunContext) -> Rollouts:
    """Return rollouts with the stop rules and, for each step, the scheduled budgets of [episode]."""
    episode, passes = context.recipe.episode, context.recipe.train.passes
    return context.rollouts.with_config(
        stop_if=parse_hooks(episode.stop_if),
        budgets=episode.budgets_at(0),
        schedule=lambda step: {"budgets": episode.budgets_at(step // passes)},
    )


def training_run(context: RunContext, learner: Learner, checkpoint: Path | None) -> TrainingRun:
    """Make the TrainingRun that the parts receive. `checkpoint`: the one from which the training resumes, if any."""
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
        renderer=learner.renderer,
        show=partial(context.console.print, markup=False, highlight=False, soft_wrap=True),
        make_policy=lambda model: context.learner(model, learner.processing_class).policy,
    )


def gatherer_for(context: RunContext, stream: Streaming | None) -> WrappedGatherer:
    """Make the gatherer with its wrappers.

    Groups are played in the background if there is a stream, or as the estimator's signals need them, such as trees.
    """
    section = context.recipe.train
    base: Gatherer = play_groups if stream is None else stream.gather
    for provider in required_providers(section.make_estimator()).values():
        base = provider.gatherer(section.signals, context.recipe.seed) or base
    return make_gatherer(base, section.gather)


def parts_around(
    context: RunContext,
    learner: Learner,
    sampler: Sampler,
    stream: Streaming | None,
    named: list[TrainingPart],
    guard: CollapseGuardCallback,
) -> list[TrainingPart]:
    """Make all parts in callback order: the parts of every reinforcement around the recipe's named parts.

    Args:
        sampler: the recipe's sampler.
        stream: plays in the background; None if each step is played when it is trained.
        named: the gatherer and the parts of [train.parts].
        guard: watches the validations.
    """
    section = context.recipe.train
    publishing = [] if stream is None else [stream.callback]
    parts: list[TrainingPart] = []
    parts += [
        Watching(*publishing, _progress_callback(context, {} if stream is None else STREAM_METRICS)),
        Validation(context, learner, parts, guard),
        Reference(section, learner.model, learner.processing_class, context.processes),
        StartDistance(learner.model, section.validate_every),
        TaskSampling(sampler, sampler if stream is None else stream.sampler),
    ]
    return [
        *parts,
        Signals(context.signal_providers(learner, section.make_estimator())),
        TrainedHook(getattr(learner.policy, "hook_maker", None)),
        *named,
        *input_parts(context, learner),
        AdaptationMark(context.adapted),
        CreditLog(context.folder),
    ]


class Watching(TrainingPart):
    """A part that only adds callbacks, which publish the weights to a background player or log every step."""

    def __init__(self, *callbacks: Any) -> None:
        self._callbacks = callbacks

    @override
    def callbacks(self) -> Sequence[Any]:
        return self._callbacks


def _progress_callback(context: RunContext, further_metrics: Mapping[str, str]) -> LoggingCallback:
    """Return the callback that logs every step, and shows some of its metrics beside a progress bar."""
    section, phase = context.recipe.train, context.folder.phase("train")
    title = "reinforcement" if phase == "train" else phase
    bar = context.progress.add_task(title, total=section.steps * section.passes, line_a_note=True)
    metrics = {**SHOWN_METRICS, **further_metrics}
    if isinstance(context.rollouts.config.engine, ReportingEngine):
        metrics |= {"cluster/nodes": "nodes", "driver/busy": "driver busy"}
    return LoggingCallback(context.folder, "train", context.progress, bar, metrics)


class Validation(TrainingPart):
    """Measures the policy on validation tasks every few steps, and keeps the model of the best validation.

    Args:
        parts: may change the rollout config for validations. guard: watches their success.
    """

    def __init__(
        self, context: RunContext, learner: Learner, parts: Sequence[TrainingPart], guard: CollapseGuardCallback
    ) -> None:
        self._context, self._learner, self._parts, self._guard = context, learner, parts, guard

    @override
    def callbacks(self) -> Sequence[Any]:
        section = self._context.recipe.train
        return [
            ValidationCallback(
                self._validate,
                every=section.validate_every,
                until=section.until_success,
                before=section.reference.moves_as == "best",  # the first validation in training needs a baseline
            )
        ]

    def _validate(self, step: int) -> dict[str, float]:
        section = self._context.recipe.train
        changes = {name: value for part in self._parts for name, value in part.measurement_changes().items()}
        count, stratum = section.validate_tasks, section.validate_stratum
        metrics = validate(self._context, self._learner, step, count, "validation", stratum=stratum, changes=changes)
        self._context.processes.share(lambda: self._note(step, metrics))
        for part in self._parts:
            part.validated(metrics)
        return metrics

    def _note(self, step: int, metrics: Mapping[str, float]) -> None:
        """Tell the guard of a validation, and keep the model if no earlier one was better."""
        self._guard.note_validation(step, metrics)
        success, checkpoints = metrics.get("success"), self._context.folder.checkpoints
        best = best_validation(checkpoints)
        if success is None or (best is not None and success < best[1]):
            return
        result = {RESULT: json.dumps({"step": step, "success": success})}
        save_model(self._learner.full_model, self._learner.processing_class, checkpoints / BEST, result)


class TaskSampling(TrainingPart):
    """Chooses the tasks of each step.

    Args:
        sampler: the sampler whose state is saved in checkpoints. used: the trainer's sampler, which may wrap `sampler`.
    """

    def __init__(self, sampler: Sampler, used: Sampler) -> None:
        self._sampler, self._used = sampler, used

    @override
    def trainer_options(self) -> Mapping[str, Any]:
        return {"sampler": self._used}

    @override
    def save(self, folder: Path) -> None:
        save_sampler(self._sampler, folder)

    @override
    def restore(self, folder: Path) -> None:
        restore_sampler(self._sampler, folder)


class Signals(TrainingPart):
    """Computes the signals that the estimator requires and no record has."""

    def __init__(self, providers: Sequence[SignalProvider]) -> None:
        self._providers = providers

    @override
    def trainer_options(self) -> Mapping[str, Any]:
        return {"signal_providers": self._providers}

    @override
    def save(self, folder: Path) -> None:
        for provider in self._providers:
            provider.save(folder)

    @override
    def restore(self, folder: Path) -> None:
        for provider in self._providers:
            provider.restore(folder)


class TrainedHook(TrainingPart):
    """Saves and restores the maker of the policy's logit hooks, if the maker has a state.

    `maker`: any hook maker, or None.
    """

    def __init__(self, maker: Any) -> None:
        self._maker = maker if isinstance(maker, TrainedHookMaker) else None

    @override
    def prepare(self, run: TrainingRun) -> None:
        if self._maker is not None and run.checkpoint is None:
            self._maker.begin()

    @override
    def save(self, folder: Path) -> None:
        if self._maker is not None:
            self._maker.save(folder)

    @override
    def restore(self, folder: Path) -> None:
        if self._maker is not None:
            self._maker.restore(folder)


class AdaptationMark(TrainingPart):
    """Notes in each checkpoint to which tasks without truth the policy is adapted. `words`: this text; "" for none."""

    def __init__(self, words: str) -> None:
        self._words = words

    @override
    def save(self, folder: Path) -> None:
        note_adaptations(folder, self._words)
