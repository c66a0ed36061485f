"""The groups of one step while their episodes are played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym.task.definition import Task
from agentgym.training.gatherers import GatheredGroup
from agentgym.trajectory.record import Trajectory


@dataclass(slots=True)
class StepGroups:
    """The groups whose episodes have one label. An episode's position is that in `EpisodeManager.stream`.

    Attributes:
        number: the step for which the groups were begun.
        label: prefix of the episodes' ids.
        tasks: one for each group.
        group_size: number of episodes per group.
        quorum: number of valid episodes that make a group ready; `group_size` to wait for all.
        consumed: number of groups handed to the trainer.
        late: number of episodes that ended after their group was ready or handed over; they are dropped.
        is_played: whether all episodes have ended.
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
        """Add an ended episode. Returns: whether this makes its group ready."""
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
        """Return the groups that wait for the trainer."""
        return sorted(self._ready)

    @property
    def outstanding(self) -> int:
        """Count the groups not yet handed over."""
        return len(self.tasks) - len(self.consumed)

    @property
    def is_over(self) -> bool:
        """Return whether all episodes have ended and all groups are handed over."""
        return self.is_played and not self.outstanding

    def take(self, group: int) -> GatheredGroup:
        """Hand over a ready group.

        The group has a row for each episode. Rows of unfinished episodes have no turns and are invalid, so neither
        statistics nor the loss read them: only finished episodes are compared.
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
