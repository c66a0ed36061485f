"""The trainer of a reinforcement, from [train] and from what its parts add."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from transformers import PrinterCallback

from agentgym.policy.contract import Policy
from agentgym.policy.rendering import TemplateRenderer
from agentgym.training.model.grpo_config import grpo_config
from agentgym.training.monitoring.callbacks import CheckpointCompleteCallback, CollapseGuardCallback
from agentgym.training.objectives.contract import TrlLoss, make_objective, make_terms
from agentgym.training.parts import TrainingPart
from agentgym.training.rollouts.trl_policy import TrlPolicy
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.turn_grpo import TurnGRPOTrainer


def make_trainer(
    context: RunContext, learner: Learner, parts: Sequence[TrainingPart], guard: CollapseGuardCallback
) -> TurnGRPOTrainer:
    """Make the trainer of [train] with the options and the callbacks of all parts, which are attached to it.

    Args:
        guard: watches the steps. It comes last, because it copies complete checkpoints.
    """
    recipe, section = context.recipe, context.recipe.train
    objective = make_objective(section.objective)
    hardware = recipe.episode, recipe.machine, context.folder.checkpoints, context.device, context.processes
    config = grpo_config(section, *hardware, seed=recipe.seed)
    config.ddp_find_unused_parameters = learner.reads_images  # a batch may show none
    callbacks = [callback for part in parts for callback in part.callbacks()]
    trainer = TurnGRPOTrainer(
        learner.model,
        args=config,
        tasks=list(context.task_set["train"]),
        policy=learner.policy if section.generation == "transformers" else _trl_policy(context, learner),
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


def _trl_policy(context: RunContext, learner: Learner) -> Callable[[TurnGRPOTrainer], Policy]:
    """Return a function that makes the policy which samples through the trainer's own backend."""
    renderer = TemplateRenderer(learner.tokenizer, context.call_format(learner.tokenizer))
    return lambda trainer: TrlPolicy(trainer, renderer)
