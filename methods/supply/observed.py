"""Two agents in turn: a pioneer plays a task, an observer reads what it did and plays it too, and both earn the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from agentgym import CreditError
from agentgym.training import Exclusion
from agentgym.training.gatherers import (
    GatheredGroup,
    Gatherer,
    GathererWrapper,
    StepRequest,
    background_play,
    group_rewards,
    in_groups,
)
from agentgym.trajectory import Trajectory, training_help

from .writing import attempt_of

OBSERVER = "observer"
PARTNER = "partner"
"""The kind of the observer's help, and the component of the other one's reward."""


class ObservedPairs(GathererWrapper):
    """Plays half of a step's tasks twice: by a pioneer, and by an observer who reads what the pioneer wrote and called.

    Episode by episode the two are partners: the return of each is added to the other's, as the component `partner`. A
    pioneer's turns have no role, and an observer's have the role `observer`. With `[policy.lora] roles = ["pioneer",
    "observer"]` each is a copy of its own, and `train.roles.rotate_every` lets them change places; else one policy is
    both. The observers of a group have read different prompts, so the bias class of an estimator does not hold there.
    They count in no success that is logged, and measurements are of the pioneer.

    Source: CORY, Ma et al. 2024, arXiv:2410.06101. From descriptions, not checked against its code.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (background_play, group_rewards)

    def __init__(self, inner: Gatherer) -> None:
        super().__init__(inner)

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step. Raises: CreditError for an odd number of tasks, or groups that were chosen among more."""
        half, odd = divmod(len(step.tasks), 2)
        if odd:
            raise CreditError(
                f"observed plays half of a step's {len(step.tasks)} tasks twice: make train.tasks_per_step even."
            )
        groups = self.inner(replace(step, tasks=step.tasks[:half]))
        pioneers = [group for group in groups if group.trained]
        if len(pioneers) != half or any(len(group.trained) != step.group_size for group in pioneers):
            raise CreditError(f"observed needs {half} groups of {step.group_size} pioneers: put it first in `gather`.")
        episodes = [episode for group in pioneers for episode in group.trained]
        observers = self._observe(step, episodes)
        for pioneer, observer in zip(episodes, observers, strict=True):
            _share(pioneer, observer)
        if (records := step.rollouts.records) is not None:
            records.amend([*episodes, *observers])
        return [*groups, *in_groups(observers, step.group_size)]

    def _observe(self, step: StepRequest, pioneers: Sequence[Trajectory]) -> list[Trajectory]:
        """One observer for each pioneer."""
        size = step.group_size
        tasks = [pioneers[start].task for start in range(0, len(pioneers), size)]
        assistance = [training_help(PARTNER, _words_of(pioneer), role=OBSERVER) for pioneer in pioneers]
        return step.play(tasks, f"{step.label}-{OBSERVER}", size, assistance=assistance)


def _words_of(pioneer: Trajectory) -> str:
    """Return what an observer is shown; nothing of a pioneer that failed for a reason that is not its own."""
    if not pioneer.valid or not (attempt := attempt_of(pioneer)):
        return ""
    return f"Another agent was asked the same, and answered:\n{attempt}"


def _share(pioneer: Trajectory, observer: Trajectory) -> None:
    """Add the return of each of two partners to that of the other, if both have one."""
    if pioneer.valid and observer.valid:
        of_pioneer, of_observer = pioneer.return_from(), observer.return_from()
        pioneer.outcome = {**pioneer.outcome, PARTNER: of_observer}
        observer.outcome = {**observer.outcome, PARTNER: of_pioneer}
