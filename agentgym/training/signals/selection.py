"""The signal providers that an estimator requires, configured by the recipe's [train.signals]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from agentgym import registry
from agentgym.credit import Estimator
from agentgym.credit.group import SIGNALS
from agentgym.environment import Environment
from agentgym.environment.wrapper import may_begin_contexts
from agentgym.errors import CreditError
from agentgym.policy.contract import Policy
from agentgym.task import TaskSet
from agentgym.training.fit import PlannedPart, TrainingPlan
from agentgym.training.model.models import reads_images
from agentgym.training.recipe.train_section import SignalsSection
from agentgym.training.rollouts.rollouts import Rollouts
from agentgym.training.signals.contributions import ContributionModel
from agentgym.training.signals.critic import Critic
from agentgym.training.signals.gold_answer import NO_ANSWER, GoldAnswer
from agentgym.training.signals.hindsight import LearnedHindsight, PromptedHindsight
from agentgym.training.signals.named_spans import NamedSpans
from agentgym.training.signals.provider import SignalProvider
from agentgym.training.signals.replayed_critic import replayed_critic
from agentgym.training.signals.replays import BranchLabels, LeaveOneOutReplays, MonteCarloContinuations
from agentgym.training.signals.state_flow import StateFlow
from agentgym.training.signals.state_ranks import StateRanks
from agentgym.training.signals.token_critic import TokenCritic
from agentgym.training.stored_turns.archive import check_runs
from agentgym.training.stored_turns.transitions import ReturnSpec

ENVIRONMENT_METHODS = {"state_keys": Environment.state_key, "potentials": Environment.potential}
"""Signals that only an environment can provide, and the method that the environment must override."""
TEXT_ONLY = frozenset(
    {"gold_logprobs", "contributions", "values", "action_values", "token_values", "hindsight"}
    | {*StateRanks.provides, *StateFlow.provides}
)
"""Signals from a model that reads a record's tokens but not its images."""
ONE_CONTEXT = frozenset({"gold_logprobs", "contributions", "values", "action_values", "token_values", "hindsight"})
"""Signals from a model that reads a trajectory as one context."""
_OF_A_CRITIC = ("values", "action_values")
WITHOUT_IMAGES = (
    "{name} requires {signals}: that is computed without images, and this policy reads images. Choose an estimator "
    "that needs no other model, such as return_to_go, grpo or vine."
)
_OF_WHOLE_MODELS = (
    *("values", "action_values", "token_values", "contributions"),  # from a network that begins as a copy of the policy
    *("rank_deviations", "flow_deviations"),  # from hidden states
)
"""Signals that the first process computes alone, with a whole model."""


@dataclass(frozen=True, slots=True)
class PlannedSignals(PlannedPart):
    """The signals that the estimator of a recipe requires, and the options of [train.signals]."""

    estimator: Estimator

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        check_signals_available(self.estimator, plan.task_set)
        section, names = plan.train.signals, set(self.estimator.requires)
        given = [name for name in ("double", "privileged", "replay") if getattr(section, name)]
        if given and not names.intersection(_OF_A_CRITIC):
            yield (
                f"train.signals.{given[0]} is an option of a critic, and train.estimator = {self.estimator.name!r} has "
                "none. Leave it out, or choose an estimator with a critic of turns, such as archer, turn_gae or "
                "sweet_rl."
            )
        if section.rank_every and "rank_deviations" not in names:
            yield (
                f"train.signals.rank_every = {section.rank_every} is read by rank_shaped, and train.estimator = "
                f"{self.estimator.name!r} has no such wrapper. Leave it out, or add the wrapper."
            )
        if section.replay is not None:
            check_runs("train.signals.replay.runs", section.replay.runs, section.replay.label)

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        yield from self._unreadable(plan)
        if (sharding := plan.hardware.sharding) is None:
            return
        names = self.estimator.requires
        if of_models := [name for name in _OF_WHOLE_MODELS if name in names]:
            yield (
                f"machine.sharding = {sharding!r}: train.estimator = {plan.train.estimator!r} requires {of_models[0]}, "
                "which the first process computes by itself with a whole model. Choose an estimator or wrappers "
                "without it, such as return_to_go or grpo."
            )
        if "hindsight" in names and plan.train.signals.hindsight == "learnt":
            yield (
                f"machine.sharding = {sharding!r}: train.estimator = {plan.train.estimator!r} learns hindsight with a "
                "copy of the whole model in the first process. Set train.signals.hindsight = 'prompted'."
            )

    def _unreadable(self, plan: TrainingPlan) -> Iterator[str]:
        """Yield conflicts with inputs that the signals' models cannot read: images, and further contexts."""
        required, path = set(self.estimator.requires), plan.policy.path
        if (names := TEXT_ONLY & required) and path is not None and reads_images(path, plan.policy.load_options()):
            yield WITHOUT_IMAGES.format(name=self.estimator.name, signals=", ".join(sorted(names)))
        if names := ONE_CONTEXT & required:
            for name in sorted({task.environment for task in plan.task_set["train"]}):
                chosen = registry.environment_of(plan.episode.environment, name)
                if may_begin_contexts(registry.prototype(chosen, **plan.episode.environment_options)):
                    yield (
                        f"train.estimator = {plan.train.estimator!r} requires {', '.join(sorted(names))}, which is "
                        f"computed of episodes with one context, and the agent may continue in others in {chosen}. "
                        "Choose an estimator without it, such as return_to_go, grpo or vine."
                    )


def check_signals_available(estimator: Estimator, task_set: TaskSet) -> None:
    """Check before training that the environments and the task set provide the signals that the estimator requires.

    Raises: CreditError naming the estimator, the signal, and the environment or task set without it.
    """
    for name in estimator.requires:
        if (method := ENVIRONMENT_METHODS.get(name)) is not None:
            for environment in sorted({task.environment for task in task_set["train"]}):
                environment_class = type(registry.prototype(environment))
                if getattr(environment_class, method.__name__, method) is method:
                    raise CreditError(
                        f"{estimator.name} requires {name}, which {environment} does not provide: it does not override "
                        f"`{method.__name__}`. {SIGNALS[name].remedy} Or choose another estimator."
                    )
        if name == "gold_logprobs" and task_set.answer is None:
            raise CreditError(NO_ANSWER.format(name=task_set.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSources:
    """The inputs of signal providers.

    Attributes:
        model, policy: the trained model and its policy.
        rollouts: plays episodes.
        task_set: the training tasks.
        encode: maps text to token ids.
        seed: the seed of the learnt networks.
    """

    model: Any
    policy: Policy
    rollouts: Rollouts
    task_set: TaskSet
    encode: Callable[[str], list[int]]
    seed: int = 0


def providers_for(
    estimator: Estimator,
    section: SignalsSection,
    sources: SignalSources,
) -> list[SignalProvider]:
    """Make the providers of the signals that the estimator requires and no record holds: none for most estimators.

    Raises: CreditError if a gold answer is required but the policy cannot score or the task set has no answers, or if a
        required signal is computed from text only but the policy reads images.
    """
    model, policy, rollouts, encode = sources.model, sources.policy, sources.rollouts, sources.encode
    text_only = TEXT_ONLY & set(estimator.requires)
    if text_only and getattr(policy.renderer, "images", None) is not None:
        raise CreditError(WITHOUT_IMAGES.format(name=estimator.name, signals=", ".join(sorted(text_only))))
    network: dict[str, Any] = {"learning_rate": section.learning_rate, "epochs": section.epochs, "seed": sources.seed}
    options = estimator.unwrapped.resolved_options  # a wrapper changes neither discount nor weights
    return_spec = ReturnSpec(
        **{name: float(options.get(name, 1.0)) for name in ("gamma", "outcome_weight", "turn_weight")}
    )

    def critic() -> SignalProvider:
        privileged = (lambda task: f"{task.truth}\n") if section.privileged else None
        if section.replay is not None:
            own_options = {"privileged": privileged, "encode": encode, "learning_rate": section.learning_rate}
            return replayed_critic(
                model, policy, section.replay, return_spec, rollouts, seed=sources.seed, **own_options
            )
        return Critic(model, return_spec, double=section.double, privileged=privileged, encode=encode, **network)

    def hindsight() -> SignalProvider:
        if section.hindsight == "prompted":
            return PromptedHindsight(policy, rollouts, encode)
        return LearnedHindsight(model, encode, **network)

    makers: dict[str, Callable[[], SignalProvider]] = {
        "gold_logprobs": lambda: GoldAnswer(policy, sources.task_set, rollouts),
        "continuations": lambda: MonteCarloContinuations(policy, rollouts, section.continuations),
        "counterfactuals": lambda: LeaveOneOutReplays(rollouts, section.exact_turns),
        "contributions": lambda: ContributionModel(model, **network),
        "values": critic,
        "action_values": critic,
        "token_values": lambda: TokenCritic(model, return_spec, **network),
        "hindsight": hindsight,
        "branches": BranchLabels,
        "span_values": lambda: NamedSpans(policy),
        **dict.fromkeys(StateRanks.provides, lambda: StateRanks(model, every=section.rank_every)),
        "flow_deviations": lambda: StateFlow(model, **network),
    }
    providers: list[SignalProvider] = []
    for name, make in makers.items():
        if name in estimator.requires and not any(name in provider.provides for provider in providers):
            providers.append(make())
    return providers
