"""An expert's episodes of a step's tasks, tokenised like the agent's own episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import override

from agentgym.errors import TaskError
from agentgym.policy.contract import Renderer
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.rollout.rollouts import Rollouts
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet
from agentgym.training.demonstrate import tokenise
from agentgym.training.fit import PlannedPart, TrainingPlan
from agentgym.training.loss.grpo_batches import OtherRows
from agentgym.training.loss.step_batch import StepBatch
from agentgym.training.parts import TrainingPart
from agentgym.trajectory.record import Trajectory

Experts = Callable[[Sequence[Task], Rollouts], Sequence[Trajectory | None]]
"""A function that is given tasks, and rollouts to play them with, and returns a tokenised episode of each task, or
None.
"""


class ScriptedExperts:
    """Play each task once, on its first request, and keep the episode if it succeeded.

    Args:
        player: `oracle` or `imperfect_oracle`; for the latter, every valid episode is kept.
        renderer: the trained policy's renderer.
    Raises: TaskError if the task set has no such player.
    """

    def __init__(self, task_set: TaskSet, player: str, renderer: Renderer) -> None:
        self._script, self._player, self._renderer = task_set.player(player), player, renderer
        self._episodes: dict[str, Trajectory | None] = {}

    def __call__(self, tasks: Sequence[Task], rollouts: Rollouts) -> list[Trajectory | None]:
        """Return the episode of each task; None if the player failed."""
        new = {task.id: task for task in tasks if task.id not in self._episodes}
        if new:
            script = self._script
            episodes = rollouts.play(
                lambda task: ScriptedPolicy(script(task)),
                list(new.values()),
                label="expert",
                group_size=1,
                record=False,
            )
            self._episodes.update({episode.task.id: self._usable(episode) for episode in episodes})
        return [self._episodes[task.id] for task in tasks]

    def _usable(self, episode: Trajectory) -> Trajectory | None:
        succeeded = (episode.success or 0) >= 1 or self._player != "oracle"
        return tokenise(episode, self._renderer) if episode.valid and succeeded else None


def stored_experts(episodes: Sequence[Trajectory]) -> Experts:
    """Return Experts that use these stored episodes, of any player: at most one per task, tokenised for the trained
    policy.
    """
    by_task = {episode.task.id: episode for episode in episodes}
    return lambda tasks, rollouts: [by_task.get(task.id) for task in tasks]


@dataclass(frozen=True, slots=True)
class PlannedExperts(PlannedPart):
    """The scripted expert of [train.experts]. `loss`: key of the loss that needs its episodes, for error messages."""

    loss: str

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        if (section := plan.train.experts) is None or section.episodes:
            return
        try:
            plan.task_set.player(section.scripted_player)
        except TaskError as error:
            yield f"{self.loss} needs episodes of an expert. {error}"


class ExpertEpisodes(TrainingPart):
    """Supplies losses with an expert's episode of each task of a step: with its return, and with its tokens to
    imitate.
    """

    provides: ClassVar[tuple[str, ...]] = ("experts",)

    def __init__(self, experts: Experts) -> None:
        self._experts = experts

    @override
    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        returns = _returns(self._experts(step.tasks, step.rollouts))
        return {"expert_returns": returns[step.group_of_row]}

    @override
    def other_rows(self, step: StepBatch) -> Mapping[str, OtherRows]:
        episodes = self._experts(step.tasks, step.rollouts)
        present = [(episode, group) for group, episode in enumerate(episodes) if episode is not None]
        rows = step.imitated(present, len(episodes))
        if present:
            of_row = _returns(episodes)[rows.batch["group_of_row"].cpu()]
            rows.batch["expert_returns"] = of_row.to(rows.batch["episode_returns"])
        return {"experts": rows}


def _returns(episodes: Sequence[Trajectory | None]) -> torch.Tensor:
    """Return (groups,) the return of each expert's episode; NaN for no episode."""
    values = [float("nan") if episode is None else episode.return_from() for episode in episodes]
    return torch.tensor(values, dtype=torch.float64)
