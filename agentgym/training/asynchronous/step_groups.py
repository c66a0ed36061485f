"""The groups that begin together, while their episodes come in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym.task import Task
from agentgym.training.gatherers import GatheredGroup
from agentgym.trajectory import Trajectory


@dataclass(slots=True)
class StepGroups:
    """The groups of one label. Episodes have the positions of `EpisodeManager.stream`.

    Attributes:
        number: the number of the step that they were begun for.
        label: begins the ids of their episodes.
        tasks: one for each group.
        group_size: episodes of a group.
        quorum: valid episodes that are enough to train a group; `group_size` for all.
        consumed: groups that were handed to the trainer.
        late: episodes that ended after their group was ready: they join nothing.
        is_played: all episodes have ended.
    """

    number: int
    label: str
    tasks: Sequence[Task]
    group_size: int
    quorum: int
    consumed: set[int] = field(default_factory=set)
    late: int = 0
    is_played: bool = False
    _ended: dict[int, dict[int, Trajectory]] = field(default_factory=dict)
    _ready: set[int] = field(default_factory=set)

    def add(self, position: int, trajectory: Trajectory) -> bool:
        """Take in an episode that has ended. Returns: whether its group is ready now."""
        group = position // self.group_size
        if group in self._ready or group in self.consumed:
            self.late += 1
            return False
        episodes = self._ended.setdefault(group, {})
        episodes[position] = trajectory
        valid = sum(episode.valid for episode in episodes.values())
        if valid < self.quorum and len(episodes) < self.group_size:
            return False
        self._ready.add(group)
        return True

    @property
    def ready(self) -> list[int]:
        """Groups that wait for the trainer."""
        return sorted(self._ready)

    @property
    def outstanding(self) -> int:
        """Groups that were not handed over yet."""
        return len(self.tasks) - len(self.consumed)

    @property
    def is_over(self) -> bool:
        """All episodes have ended, and all groups were handed over."""
        return self.is_played and not self.outstanding

    def take(self, group: int) -> GatheredGroup:
        """Hand over a group that is ready.

        It has a row for each episode. Rows of those that have not ended hold no turn and are not valid, so they enter
        neither statistics nor loss: the group is compared as one of the episodes that are there.
        """
        self._ready.remove(group)
        self.consumed.add(group)
        episodes, task = self._ended.pop(group), self.tasks[group]
        first_sample = sum(earlier.id == task.id for earlier in self.tasks[:group]) * self.group_size
        rows = []
        for row in range(self.group_size):
            sample = first_sample + row
            unfinished = Trajectory(f"{self.label}/{task.id}#{sample}", task, sample)
            rows.append(episodes.get(group * self.group_size + row, unfinished))
        return GatheredGroup(rows)
