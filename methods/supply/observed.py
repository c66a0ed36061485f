"""Two agents in turn: a pioneer plays a task; an observer reads what the pioneer did and plays the task too; each earns
the sum of both returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from agentgym import CreditError, Trajectory
from agentgym.text import counted
from agentgym.training import Exclusion
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest
from agentgym.trajectory import PromptAddition

from .writing import attempt_of

OBSERVER = "observer"
PARTNER = "partner"
"""Name of the kind of help that the observer gets, and of the reward component with the partner's return."""


class ObservedPairs(GathererWrapper):
    """Plays half of a step's tasks twice: by a pioneer, and by an observer who reads what the pioneer wrote and called.

    The two are paired episode by episode: each one's return is added to the other's, as the component `partner`.
    Pioneer turns have no role; observer turns have the role `observer`. With `[policy.lora] roles = ["pioneer",
    "observer"]` each has its own adapter, and `train.roles.rotate_every` lets them swap; otherwise one policy plays
    both. Observers in a group have read different prompts, so an estimator's bias class is not valid for them.
    Observers are left out of logged success, and measurements cover the pioneer only.

    Source: CORY, Ma et al. 2024, arXiv:2410.06101. Written from descriptions, not checked against its code.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (GathererWrapper.background_play, GathererWrapper.group_rewards)

    def __init__(self, inner: Gatherer) -> None:
        super().__init__(inner)

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step.

        Raises: CreditError for an odd number of tasks, or if the inner gatherer leaves out groups or returns groups of
            another size.
        """
        half, odd = divmod(len(step.tasks), 2)
        if odd:
            raise CreditError(
                f"observed plays the first half of a step's tasks twice, so it cannot use "
                f"{counted(len(step.tasks), 'task')}. Give train.tasks_per_step an even number."
            )
        groups = self.inner(replace(step, tasks=step.tasks[:half]))
        pioneers = [group for group in groups if group.trained]
        if len(pioneers) != half or any(len(group.trained) != step.group_size for group in pioneers):
            raise CreditError(
                f"observed needs {half} complete groups of {step.group_size} episodes. Name it first in train.gather, "
                "so that no other gatherer changes them."
            )
        episodes = [episode for group in pioneers for episode in group.trained]
        observers = self._observe(step, episodes)
        for pioneer, observer in zip(episodes, observers, strict=True):
            _share(pioneer, observer)
        if (records := step.rollouts.records) is not None:
            records.amend([*episodes, *observers])
        return [*groups, *GatheredGroup.split(observers, step.group_size)]

    def _observe(self, step: StepRequest, pioneers: Sequence[Trajectory]) -> list[Trajectory]:
        """Play one observer for each pioneer."""
        size = step.group_size
        tasks = [pioneers[start].task for start in range(0, len(pioneers), size)]
        assistance = [PromptAddition.training_help(PARTNER, _words_of(pioneer), role=OBSERVER) for pioneer in pioneers]
        return step.play(tasks, f"{step.label}-{OBSERVER}", size, assistance=assistance)


def _words_of(pioneer: Trajectory) -> str:
    """Return what an observer is shown of a pioneer's episode; empty if the infrastructure failed that episode."""
    if not pioneer.valid or not (attempt := attempt_of(pioneer)):
        return ""
    return f"Another agent was asked the same, and answered:\n{attempt}"


def _share(pioneer: Trajectory, observer: Trajectory) -> None:
    """Add each partner's return to the other's, if both have one."""
    if pioneer.valid and observer.valid:
        of_pioneer, of_observer = pioneer.return_from(), observer.return_from()
        pioneer.outcome = {**pioneer.outcome, PARTNER: of_observer}
        observer.outcome = {**observer.outcome, PARTNER: of_pioneer}
