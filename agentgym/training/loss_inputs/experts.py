"""Episodes of an expert on the tasks of a step, tokenised as the agent's own would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentgym.policy.contract import Renderer
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.task import Task, TaskSet
from agentgym.training.demonstrate import script_of, tokenise
from agentgym.training.rollouts.rollouts import Rollouts
from agentgym.trajectory import Trajectory


class Experts(Protocol):
    """Shows how tasks are solved."""

    def of(self, tasks: Sequence[Task]) -> list[Trajectory | None]:
        """An episode of each task, with token ids; None where there is none to imitate."""


class ScriptedExperts:
    """Plays each task once, when it is first asked for, and keeps the episode if it succeeded.

    Args:
        player: `oracle` or `imperfect_oracle`; of the latter every valid episode counts.
        renderer: of the policy that is trained.
    Raises: TaskError if the task set has no such player.
    """

    def __init__(self, task_set: TaskSet, player: str, rollouts: Rollouts, renderer: Renderer) -> None:
        self._script, self._player = script_of(task_set, player), player
        self._rollouts, self._renderer = rollouts, renderer
        self._episodes: dict[str, Trajectory | None] = {}

    def of(self, tasks: Sequence[Task]) -> list[Trajectory | None]:
        """The episode of each task; None where the player failed."""
        new = {task.id: task for task in tasks if task.id not in self._episodes}
        if new:
            script = self._script
            episodes = self._rollouts.play(
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


class StoredExperts:
    """Episodes that were stored, by whoever played them.

    Args:
        episodes: with token ids of the policy that is trained, at most one of a task.
    """

    def __init__(self, episodes: Sequence[Trajectory]) -> None:
        self._episodes = {episode.task.id: episode for episode in episodes}

    def of(self, tasks: Sequence[Task]) -> list[Trajectory | None]:
        """The episode of each task; None where none is stored."""
        return [self._episodes.get(task.id) for task in tasks]
