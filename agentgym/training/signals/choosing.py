"""The sources that an estimator requires, made as the recipe's [train.signals] says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentgym import registry
from agentgym.credit import Estimator
from agentgym.credit.group import SIGNALS
from agentgym.environment import Environment
from agentgym.errors import CreditError
from agentgym.policy.contract import Policy
from agentgym.task import TaskSet
from agentgym.training.recipe import SignalsSection
from agentgym.training.rollouts import Rollouts
from agentgym.training.signals.critic import Critic
from agentgym.training.signals.gold import NO_ANSWER, GoldAnswer
from agentgym.training.signals.hindsight import Learnt, Prompted
from agentgym.training.signals.progress import Progress
from agentgym.training.signals.replays import LeftOut, PlayedOn, Shared
from agentgym.training.signals.source import Source
from agentgym.training.signals.token_critic import TokenCritic
from agentgym.training.signals.worth import Worth

OFFERED = {"state_keys": Environment.state_key, "potentials": Environment.potential}
"""Signals that only an environment can give, and the method it overrides to give them."""
TEXT_ONLY = frozenset({"gold_logprobs", "contributions", "values", "action_values", "token_values", "hindsight"})
"""Signals that a model gives who is shown the tokens of a record and none of its images."""


def check_offered(chosen: Estimator, task_set: TaskSet) -> None:
    """See, before anything is trained, that the environments and the task set give what the estimator requires.

    Raises: CreditError naming the estimator, the signal, and who does not give it.
    """
    for name in chosen.requires:
        if (method := OFFERED.get(name)) is not None:
            for environment in sorted({task.environment for task in task_set["train"]}):
                environment_class = type(registry.prototype(environment))
                if getattr(environment_class, method.__name__, method) is method:
                    raise CreditError(
                        f"{chosen.name} requires {name}, and {environment} offers none: it does not override "
                        f"`{method.__name__}`. {SIGNALS[name].remedy} Or choose another estimator."
                    )
        if name == "gold_logprobs" and task_set.answer is None:
            raise CreditError(NO_ANSWER.format(name=task_set.name))


def sources_for(
    chosen: Estimator,
    section: SignalsSection,
    *,
    model: Any,
    policy: Policy,
    rollouts: Rollouts,
    task_set: TaskSet,
    encode: Callable[[str], list[int]],
    seed: int = 0,
) -> list[Source]:
    """One source for each signal the estimator requires and no record holds; an empty list for most estimators.

    Args:
        chosen: says what it requires. `model`, `policy`: being trained. `encode`: from text to token ids.
    Raises: CreditError if a gold answer is required, and the policy cannot score or the task set has none; or if what
        is required is read from text alone, and the policy reads images.
    """
    blind = TEXT_ONLY & set(chosen.requires)
    if blind and getattr(policy.renderer, "images", None) is not None:
        raise CreditError(
            f"{chosen.name} requires {', '.join(sorted(blind))}: whatever gives that is shown no images, and this "
            "policy reads them. Choose an estimator that needs no other model, such as return_to_go, grpo or vine."
        )
    network: dict[str, Any] = {"learning_rate": section.learning_rate, "epochs": section.epochs, "seed": seed}
    set_to = chosen.unwrapped.resolved_options  # wrappers have no say in what is discounted, or weighs how much
    worth = Worth(**{name: float(set_to.get(name, 1.0)) for name in ("gamma", "outcome_weight", "turn_weight")})

    def critic() -> Source:
        privileged = (lambda task: f"{task.truth}\n") if section.privileged else None
        return Critic(model, worth, double=section.double, privileged=privileged, encode=encode, **network)

    def hindsight() -> Source:
        if section.hindsight == "prompted":
            return Prompted(policy, rollouts, encode)
        return Learnt(model, encode, **network)

    makers: dict[str, Callable[[], Source]] = {
        "gold_logprobs": lambda: GoldAnswer(policy, task_set, rollouts),
        "continuations": lambda: PlayedOn(policy, rollouts, section.continuations),
        "counterfactuals": lambda: LeftOut(rollouts, section.exact_turns),
        "contributions": lambda: Progress(model, **network),
        "values": critic,
        "action_values": critic,
        "token_values": lambda: TokenCritic(model, worth, **network),
        "hindsight": hindsight,
        "branches": Shared,
    }
    found: list[Source] = []
    for name, make in makers.items():
        if name in chosen.requires and not any(name in source.gives for source in found):
            found.append(make())
    return found
