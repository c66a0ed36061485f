"""SignalProvider: computes signals that an estimator requires and the record of an episode does not have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from agentgym import registry
from agentgym.credit import Estimator
from agentgym.errors import CreditError
from agentgym.policy.contract import Policy
from agentgym.rollout.rollouts import Rollouts
from agentgym.task.task_set import TaskSet
from agentgym.training.fit import TrainingPlan
from agentgym.training.gatherers import Gatherer
from agentgym.training.recipe.train_section import SignalsSection
from agentgym.trajectory.record import Trajectory

SignalRows = list[Any]
"""One signal of a batch: one entry per trajectory, with the shape that `Group` defines."""
WITHOUT_IMAGES = (
    "{name} requires {signals}: that is computed without images, and this policy reads images. Choose an estimator "
    "that needs no other model, such as return_to_go, grpo or vine."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalSources:
    """The inputs for making signal providers.

    Attributes:
        model, policy: the trained model and its policy.
        rollouts: plays episodes.
        task_set: the training tasks.
        encode: maps text to token ids.
        estimator: requires the signals.
        options: the recipe's [train.signals].
        seed: the seed of the learnt networks.
    """

    model: Any
    policy: Policy
    rollouts: Rollouts
    task_set: TaskSet
    encode: Callable[[str], list[int]]
    estimator: Estimator
    options: SignalsSection = field(default_factory=SignalsSection)
    seed: int = 0

    @property
    def network_options(self) -> dict[str, Any]:
        """Return learning rate, passes and seed of a network that is learnt for signals."""
        options = self.options
        return {"learning_rate": options.learning_rate, "epochs": options.epochs, "seed": self.seed}

    @property
    def return_weights(self) -> dict[str, float]:
        """Return the discount and the weights of outcome and turn rewards in the estimator's return."""
        options = self.estimator.unwrapped.resolved_options  # a wrapper changes neither discount nor weights
        return {name: float(options.get(name, 1.0)) for name in ("gamma", "outcome_weight", "turn_weight")}

    def providers(self) -> list[SignalProvider]:
        """Make the providers of the signals that the estimator requires and no record has; most estimators need none.

        Raises: CreditError if a required signal is computed from text only but the policy reads images; a provider's
            own error if the sources do not suffice.
        """
        required = required_providers(self.estimator)
        text_only = sorted(name for name, provider in required.items() if provider.reads_text_only)
        if text_only and getattr(self.policy.renderer, "images", None) is not None:
            raise CreditError(WITHOUT_IMAGES.format(name=self.estimator.name, signals=", ".join(text_only)))
        return [provider.make(self) for provider in dict.fromkeys(required.values())]


class SignalProvider(ABC):
    """Base of signal providers. Register a subclass under the kind `signal_providers`, once for each of its signals.

    Attributes:
        provides: names of the signals that the provider computes, which are fields of `agentgym.credit.Group`.
        switches: keys of [train.signals] that only this provider reads. A recipe that sets one must require the
            provider's signals.
        reads_text_only: whether the signals are computed from tokens without images.
        reads_one_context: whether a trajectory is read as one context.
        needs_whole_model: whether the first process computes the signals alone, with the whole model.
    """

    provides: ClassVar[tuple[str, ...]] = ()
    switches: ClassVar[tuple[str, ...]] = ()
    reads_text_only: ClassVar[bool] = False
    reads_one_context: ClassVar[bool] = False
    needs_whole_model: ClassVar[bool] = False

    @classmethod
    def make(cls, sources: SignalSources) -> SignalProvider:
        """Make the provider for a training. Raises: CreditError, RecipeError for sources that do not suffice."""
        return cls()

    @classmethod
    def requires(cls, plan: TrainingPlan) -> Iterator[str]:
        """Yield a sentence for each requirement that the recipe does not meet, before anything is loaded."""
        yield from ()

    @classmethod
    def gatherer(cls, options: SignalsSection, seed: int) -> Gatherer | None:
        """Return what plays the groups of a step, if the signals need groups of another form, such as trees.

        Args:
            options: the recipe's [train.signals]. seed: the seed of the run.
        """
        return None

    @abstractmethod
    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, SignalRows]:
        """Return the signals of all trajectories in order, with placeholders of the same shape for invalid ones."""

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learn from the batch after its credit has been estimated. Returns: metrics."""
        return {}

    def save(self, folder: Path) -> None:  # noqa: B027  optional
        """Write the state of a provider that learns into a checkpoint's folder."""

    def restore(self, folder: Path) -> None:  # noqa: B027  optional
        """Restore the state from a checkpoint's folder. An older checkpoint without it changes nothing."""


def required_providers(estimator: Estimator) -> dict[str, type[SignalProvider]]:
    """Return the registered provider of each signal that the estimator requires, by the signal's name."""
    registered = registry.names("signal_providers")
    return {name: registry.load("signal_providers", name) for name in estimator.requires if name in registered}
