"""What gathers the groups of a step: playing them, growing them as trees, and wrappers that choose among more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentgym.policy.contract import Policy
from agentgym.task import Task
from agentgym.training.recipe.named_parts import load_part, parse_part
from agentgym.training.rollouts.rollouts import Rollouts
from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class GatheredGroup:
    """The episodes of one task in a step.

    Attributes:
        trained: those that are compared with each other and trained on. Rows of episodes that have not ended yet are
            not valid (see `train.group_quorum`).
        left_out: others that were played. They count in the metrics, and for the sampler.
    """

    trained: list[Trajectory]
    left_out: list[Trajectory] = field(default_factory=list)

    @property
    def episodes(self) -> list[Trajectory]:
        """All that were played to their ends."""
        return [t for t in (*self.trained, *self.left_out) if t.stop_reason is not None]


class Gatherer(Protocol):
    """Plays a step. A wrapper is a function of another gatherer, with options, that returns one."""

    def __call__(
        self,
        rollouts: Rollouts,
        policy: Policy,
        tasks: Sequence[Task],
        *,
        label: str,
        group_size: int,
        progress: float | None = None,
    ) -> list[GatheredGroup]:
        """Gather a group of `group_size` trained episodes of each task, in the order of the tasks.

        Args:
            label, progress: see `Rollouts.play`. Each call for more episodes needs a label of its own.
        """
        ...


def play_groups(
    rollouts: Rollouts,
    policy: Policy,
    tasks: Sequence[Task],
    *,
    label: str,
    group_size: int,
    progress: float | None = None,
) -> list[GatheredGroup]:
    """The gatherer that plays every episode from the start."""
    trajectories = rollouts.play(policy, tasks, label=label, group_size=group_size, progress=progress)
    return in_groups(trajectories, group_size)


def in_groups(trajectories: Sequence[Trajectory], group_size: int) -> list[GatheredGroup]:
    """Consecutive trajectories as groups, all of them trained."""
    starts = range(0, len(trajectories), group_size)
    return [GatheredGroup(list(trajectories[start : start + group_size])) for start in starts]


def make_gatherer(base: Gatherer, wrappers: Sequence[str]) -> Gatherer:
    """Wrap a gatherer, the innermost wrapper first, each with its options: `max_variance(factor=2)`.

    Raises: UnknownNameError; CreditError for options that a wrapper does not take.
    """
    for text in wrappers:
        part = parse_part(text)
        base = load_part("gatherers", part.name, part.options)(base)
    return base
