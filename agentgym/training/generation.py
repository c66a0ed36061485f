"""Recipe checks for sampling: background play, sampling through TRL, and logit hooks."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from agentgym import registry
from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.logit_hooks.served_masks import require_vllm_form
from agentgym.training.fit import PlannedPart, TrainingPlan


class BackgroundPlay(PlannedPart):
    """Episodes that are played while the model trains. Gatherers that play episodes exclude background play."""

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
        if train.adapt is not None:
            yield f"{begins} train.adapt lets another reward judge than validations do. Leave it out."
        if train.group_quorum is not None and plan.has_group_reward:
            yield (
                f"{begins} the reward judges whole groups, and a group_quorum does not wait for them. Leave one of "
                "them out."
            )


_OF_WHOLE_DISTRIBUTIONS = ("score_norms", "token_certainties")
"""Signals computed from the distribution over all tokens."""


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
                raise RecipeError(f"[vllm] and policy.logit_hook = {name!r}: {error}") from error
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
