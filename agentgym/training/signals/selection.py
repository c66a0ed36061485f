"""Checks before a run starts that the signals that an estimator requires can be provided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

from agentgym import registry
from agentgym.credit import Estimator
from agentgym.credit.group import SIGNALS
from agentgym.environment.contract import Environment
from agentgym.environment.wrapper import may_begin_contexts
from agentgym.errors import CreditError
from agentgym.task.task_set import TaskSet
from agentgym.training.fit import PlannedPart, TrainingPlan
from agentgym.training.model.models import reads_images
from agentgym.training.signals.provider import WITHOUT_IMAGES, required_providers

ENVIRONMENT_METHODS = {"state_keys": Environment.state_key, "potentials": Environment.potential}
"""Signals that only an environment can provide, and the method that the environment must override."""


@dataclass(frozen=True, slots=True)
class PlannedSignals(PlannedPart):
    """The signals that the estimator of a recipe requires, and the options of [train.signals]."""

    estimator: Estimator

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        check_environment_signals(self.estimator, plan.task_set)
        providers = dict.fromkeys(required_providers(self.estimator).values())
        for provider in providers:
            yield from provider.requires(plan)
        yield from self._unread_options(plan, {key for provider in providers for key in provider.switches})

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        required, sharding = required_providers(self.estimator), plan.hardware.sharding
        path = plan.policy.path
        text_only = sorted(name for name, provider in required.items() if provider.reads_text_only)
        if text_only and path is not None and reads_images(path, plan.policy.load_options()):
            yield WITHOUT_IMAGES.format(name=self.estimator.name, signals=", ".join(text_only))
        yield from self._further_contexts(plan)
        of_models = [name for name, provider in required.items() if provider.needs_whole_model]
        if sharding is not None and of_models:
            yield (
                f"machine.sharding = {sharding!r}: train.estimator = {plan.train.estimator!r} requires {of_models[0]}, "
                "which the first process computes by itself with a whole model. Choose an estimator or wrappers "
                "without it, such as return_to_go or grpo."
            )

    def _further_contexts(self, plan: TrainingPlan) -> Iterator[str]:
        """Yield conflicts of signals that read one context with environments whose episodes may have several."""
        required = required_providers(self.estimator)
        if not (names := sorted(name for name, provider in required.items() if provider.reads_one_context)):
            return
        for name in sorted({task.environment for task in plan.task_set["train"]}):
            chosen = registry.environment_of(plan.episode.environment, name)
            if may_begin_contexts(registry.prototype(chosen, **plan.episode.environment_options)):
                yield (
                    f"train.estimator = {plan.train.estimator!r} requires {', '.join(names)}, which is computed of "
                    f"episodes with one context, and the agent may continue in others in {chosen}. Choose an "
                    "estimator without it, such as return_to_go, grpo or vine."
                )

    def _unread_options(self, plan: TrainingPlan, read: set[str]) -> Iterator[str]:
        """Yield the keys of [train.signals] that are switched on though no required signal reads them."""
        section = plan.train.signals
        for key, field in type(section).model_fields.items():
            if field.default or not getattr(section, key) or key in read:
                continue
            readers = [
                name
                for name in registry.names("signal_providers")
                if key in registry.load("signal_providers", name).switches
            ]
            yield (
                f"train.signals.{key} is an option of the signals {', '.join(readers)}, and train.estimator = "
                f"{self.estimator.name!r} requires none of them. Leave it out, or choose an estimator or a "
                "wrapper that does."
            )


def check_environment_signals(estimator: Estimator, task_set: TaskSet) -> None:
    """Check before training that the environments provide the signals that only they can provide.

    Raises: CreditError naming the estimator, the signal, and the environment without it.
    """
    for name in estimator.requires:
        if (method := ENVIRONMENT_METHODS.get(name)) is not None:
            for environment in sorted({task.environment for task in task_set["train"]}):
                environment_class = type(registry.prototype(environment))
                if getattr(environment_class, method.__name__, method) is method:
                    raise CreditError(
                        f"The estimator {estimator.name} requires {name}, but {environment} does not provide it: it "
                        f"does not override `{method.__name__}`. {SIGNALS[name].remedy} Or choose another estimator."
                    )
