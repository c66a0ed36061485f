"""Whether the parts of a training fit together: what each part is told of the recipe, and what it says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentgym.errors import RecipeError
from agentgym.reward import Reward
from agentgym.task import TaskSet
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.hardware_section import HardwareSection, VllmSection
from agentgym.training.recipe.policy_section import PolicySection, TinySection
from agentgym.training.recipe.train_section import TrainSection


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What a part may read of a recipe to say whether it fits, before anything is loaded.

    Attributes:
        train, episode, policy, hardware, vllm: sections of the recipe.
        task_set: the tasks that are trained on.
        reward: the reward that judges them; None for that of each environment.
        process_count: how many processes train together.
        stage: the name of the stage that trains.
        recorded_labels: how the ids of the episodes begin that the stages before have recorded; None where that is
            not known yet.
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

    @property
    def has_group_reward(self) -> bool:
        """Whether the reward judges whole groups."""
        return isinstance(self.reward, Reward) and self.reward.has_stage("group")


Exclusion = Callable[[Any, TrainingPlan], str]
"""Returns why a part does not go with something else in a recipe, and what to do; "" where it does."""


class PlannedPart:
    """Base of what a recipe asks for and what says by itself whether it fits the rest of the recipe.

    Attributes:
        excludes: what the part does not go with.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = ()

    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        """Yield a sentence for each thing that the part needs and the recipe does not have."""
        yield from ()

    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        """Yield a sentence for each thing in the recipe that the part does not go with."""
        yield from filter(None, (excludes(self, plan) for excludes in self.excludes))


def check_parts(parts: Sequence[PlannedPart], plan: TrainingPlan) -> None:
    """Ask every part whether the recipe has something that it excludes, and then whether it has what it requires.

    Raises: RecipeError with the first reason of a part.
    """
    for part in parts:
        for reason in (*part.conflicts(plan), *part.requires(plan)):
            raise RecipeError(reason)
