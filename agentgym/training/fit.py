"""Checks that the parts of a training fit together: each part reads a plan of the training, and objects to what
conflicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentgym import registry
from agentgym.errors import RecipeError
from agentgym.policy.policy_section import PolicySection, TinySection
from agentgym.policy.vllm_section import VllmSection
from agentgym.reward.contract import Reward
from agentgym.task.task_set import TaskSet
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.hardware_section import HardwareSection
from agentgym.training.recipe.train_section import TrainSection


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The data of a recipe with which a part checks its compatibility, before anything is loaded.

    Attributes:
        train, episode, policy, hardware, vllm: sections of the recipe.
        task_set: the training tasks.
        reward: the reward of the episodes; None for each environment's own reward.
        process_count: number of processes that train together.
        stage: the name of the stage that trains.
        trained_rows: the kinds of episodes that the objective and the terms train on: "policy" for the policy's own.
        recorded_labels: labels (id prefixes) of the episodes recorded by earlier stages; None if not known yet.
    """

    train: TrainSection
    episode: EpisodeSection
    task_set: TaskSet
    reward: Reward | str | None = None
    process_count: int = 1
    stage: str = "train"
    recorded_labels: Sequence[str] | None = None
    policy: PolicySection = field(default_factory=lambda: PolicySection(tiny=TinySection()))
    hardware: HardwareSection = field(default_factory=HardwareSection)
    vllm: VllmSection | None = None
    trained_rows: Sequence[str] = ("policy",)

    @property
    def has_group_reward(self) -> bool:
        """Return whether the reward judges whole groups."""
        return isinstance(self.reward, Reward) and self.reward.has_stage("group")


Exclusion = Callable[[Any, TrainingPlan], str]
"""A function that returns why a part conflicts with another setting of a recipe, with a remedy; "" for no conflict."""


class PlannedPart:
    """Base of the parts of a recipe that check their own compatibility with the rest of the recipe.

    A recipe is checked before the run has a policy. So what is made from the policy, such as a critic or a copy of the
    weights, is not in the planned part but in a training part beside it: `PlannedSignals` is checked, `Signals` is
    made.

    Attributes:
        excludes: checks for conflicts with other parts of the recipe.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = ()

    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        """Yield a sentence for each requirement of the part that the recipe does not meet."""
        yield from ()

    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        """Yield a sentence for each conflict between the part and the recipe."""
        yield from filter(None, (excludes(self, plan) for excludes in self.excludes))


def check_parts(parts: Sequence[PlannedPart], plan: TrainingPlan) -> None:
    """Check each part's conflicts, then its requirements.

    Raises: RecipeError with the first reason found.
    """
    for part in parts:
        for reason in (*part.conflicts(plan), *part.requires(plan)):
            raise RecipeError(reason)


def is_implied(name: str) -> bool:
    """Return whether the training part of this name is added to a recipe that does not name it, if a loss needs its
    input.
    """
    return name in registry.names("training_parts") and bool(registry.load("training_parts", name).is_implied)
