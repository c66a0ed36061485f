"""Lists the parts of a training, which check whether they fit the recipe, and makes the TrainingPlan that they read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from typing_extensions import override

from agentgym import registry
from agentgym.credit.named_parts import parse_part
from agentgym.errors import CreditError, PolicyError, RecipeError, UnknownNameError
from agentgym.policy.checkpoint import load_configuration
from agentgym.policy.logit_hooks.served_masks import require_vllm_form
from agentgym.storage.run_folder import checkpoint_in
from agentgym.task.task_set import TaskSet
from agentgym.training.demonstrate import DEMONSTRATION
from agentgym.training.experts import PlannedExperts
from agentgym.training.fit import PlannedPart, TrainingPlan, check_parts
from agentgym.training.gatherers import make_gatherer, play_groups
from agentgym.training.model.sharding import ShardedModel
from agentgym.training.objectives.planned import PlannedLoss, PlannedReference, planned_losses
from agentgym.training.parts import TrainingPart, make_parts
from agentgym.training.processes import Processes
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.signals.selection import PlannedSignals
from agentgym.training.stages.contract import PlannedStage


class BackgroundPlay(PlannedPart):
    """Background play: episodes are played while the model trains. Gatherers that play episodes exclude it."""

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        train, begins = plan.train, f"{plan.train.stream_key} plays episodes in the background:"
        if plan.hardware.sharding is not None:
            yield f"{begins} machine.sharding brings the weights together only when a step is played. Leave it out."
        if train.generation != "transformers":
            yield f"{begins} it needs train.generation = 'transformers'."
        if "branches" in train.make_estimator().requires:
            yield (
                f"{begins} {train.estimator} compares branches, which are grown a step at once. Choose another "
                "estimator."
            )
        if train.group_quorum is not None and plan.has_group_reward:
            yield (
                f"{begins} the reward judges whole groups, and a group_quorum does not wait for them. Leave one of "
                "them out."
            )


class PlannedSampler(PlannedPart):
    """The sampler of [train]. If the reward compares tasks, it must draw these in the same step."""

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        reward, sampler = plan.reward, plan.train.sampler
        if isinstance(reward, str):
            reward = registry.load_reward(reward)
        if reward is not None and reward.sampler and (not sampler or parse_part(sampler).name != reward.sampler):
            yield (
                f"train.sampler = {sampler!r} does not draw together the tasks that the reward compares, so "
                f"no group could be judged. Set train.sampler = {reward.sampler!r}."
            )


_OF_WHOLE_DISTRIBUTIONS = ("score_norms", "token_certainties")
"""Signals that are computed from the policy's distribution over all tokens."""


class ServedSampling(PlannedPart):
    """Sampling by the servers of [vllm]."""

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        if plan.train.generation == "trl":
            yield "[vllm] names what samples: leave out train.generation = 'trl'."
        source = plan.policy.path
        checkpoint = checkpoint_in(Path(source)) if source is not None else None
        if checkpoint is not None and hasattr(load_configuration(checkpoint), "vision_config"):
            yield (
                "[vllm] cannot be used with the model of policy.path, because it reads images. Leave the section out: "
                "such a model samples in the training process."
            )


class TrlGeneration(PlannedPart):
    """Sampling through the trainer's own backend: `train.generation = "trl"`."""

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        if plan.process_count > 1:
            yield (
                "train.generation = 'trl' makes every process sample, where only the first of several plays. Leave it "
                "out."
            )


class PlannedHook(PlannedPart):
    """The logit hook of [policy], whose masks both the sampler and the trainer must apply."""

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        name, generation = str(plan.policy.logit_hook), plan.train.generation
        if plan.vllm is not None:
            try:
                require_vllm_form(name)
            except PolicyError as error:
                raise RecipeError(f"policy.logit_hook = {name!r} cannot be used with [vllm]: {error}") from error
        if generation != "transformers":
            yield f"policy.logit_hook = {name!r} needs train.generation = 'transformers', not {generation!r}."

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        key, train = f"policy.logit_hook = {plan.policy.logit_hook!r}", plan.train
        if getattr(registry.load("logit_hooks", str(plan.policy.logit_hook)), "tilts", False) and train.steps:
            yield (
                f"{key} changes the logits, which no record keeps, so nothing can be trained under it. Evaluate with "
                "it, in a stage `evaluate_guided` or by `agentgym eval`, and train without."
            )
        estimator = train.make_estimator()
        for signal in _OF_WHOLE_DISTRIBUTIONS:
            if signal in estimator.requires:
                yield f"{key}: {estimator.name} requires {signal}, which are of unrestricted distributions."


def plan_of(stage: PlannedStage, task_set: TaskSet, processes: Processes) -> TrainingPlan:
    """Make the TrainingPlan that the parts of a stage may read. Raises: RecipeError."""
    recipe, reward = stage.recipe, stage.recipe.make_reward(task_set)
    for part in used_parts(recipe.train):
        task_set, reward = part.training_tasks(task_set), part.rollout_changes().get("reward", reward)
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
        tuple({kind for loss in planned_losses(recipe.train) for kind in loss.needs.rows}),
    )


def parts_of(plan: TrainingPlan) -> list[PlannedPart]:
    """List a training's parts in the order in which they are checked for compatibility. Raises: RecipeError."""
    train = plan.train
    losses = planned_losses(train)
    parts: list[tuple[bool, PlannedPart]] = [
        (plan.policy.logit_hook is not None, PlannedHook()),
        (plan.vllm is not None, ServedSampling()),
        (train.generation == "trl", TrlGeneration()),
        (train.steps > 0, PlannedSignals(train.make_estimator())),
        *((True, loss) for loss in losses),
        *((train.experts is not None, PlannedExperts(loss.key)) for loss in losses if "experts" in loss.needs.rows),
        (train.steps > 0, PlannedReference(losses)),
        *((True, part) for part in make_gatherer(play_groups, train.gather).parts),
        *((True, part) for part in _named_parts(losses, train)),
        (train.is_streamed, BackgroundPlay()),
        (plan.hardware.sharding is not None, ShardedModel()),
    ]
    return [part for is_asked_for, part in parts if is_asked_for]


def used_parts(train: TrainSection) -> list[TrainingPart]:
    """Return the parts of [train.parts] that a training would use. Raises: RecipeError."""
    return _named_parts(planned_losses(train), train)


def _named_parts(losses: Sequence[PlannedLoss], train: TrainSection) -> list[TrainingPart]:
    """Return the parts of [train.parts] that would be used. Raises: RecipeError."""
    try:
        return make_parts(train.parts, {name for loss in losses for name in loss.needs.from_parts})
    except (CreditError, UnknownNameError, ValueError) as error:
        raise RecipeError(f"A part named in [train.parts] cannot be made: {error}") from error


def check_launch(stages: Sequence[PlannedStage], task_set: TaskSet, processes: Processes) -> None:
    """Check that only `machine.sharding` shards the weights, and that there are then several processes.

    Raises: RecipeError with the reason and the remedy.
    """
    options = {key for stage in stages for key in stage.recipe.train.trl}
    is_sharded = any(stage.recipe.machine.sharding is not None for stage in stages)
    if _is_set("ACCELERATE_USE_DEEPSPEED") or "deepspeed" in options:
        raise RecipeError(
            "DeepSpeed is not supported. To shard the weights over the processes, set machine.sharding = 'fsdp' and "
            "start the run with torchrun."
        )
    if given := sorted({"fsdp", "fsdp_config"} & options):
        raise RecipeError(
            f"[train.trl] {given[0]} is not supported: set machine.sharding = 'fsdp' to shard the weights, and leave "
            "this key out."
        )
    if not is_sharded and _is_set("ACCELERATE_USE_FSDP"):
        raise RecipeError(
            "accelerate was started with FSDP, but the recipe does not shard the weights. Set machine.sharding = "
            "'fsdp', or start the processes with torchrun."
        )
    for stage in stages if is_sharded else ():
        check_parts([ShardedModel()], plan_of(stage, task_set, processes))


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() in ("1", "true")
