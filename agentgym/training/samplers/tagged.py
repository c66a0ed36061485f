"""Trains on the tasks with one tag alone, where the recipe's tasks are also imitated or validated on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.errors import TaskError
from agentgym.task import Task, seed_of
from agentgym.training.samplers.contract import draws_of
from agentgym.trajectory import Trajectory


class Tagged:
    """Draws the tasks that carry a tag, shuffled anew whenever all of them have been drawn.

    Args:
        tasks: to draw from.
        seed: of the shuffling.
        tag: what a task must carry.
    Raises: TaskError if no task carries it.
    """

    def __init__(self, tasks: Sequence[Task], seed: int = 0, *, tag: str) -> None:
        self._tasks = [task for task in tasks if tag in task.tags]
        if not self._tasks:
            known = sorted({tag for task in tasks for tag in task.tags})
            raise TaskError(f"train.sampler: no training task is tagged {tag}. Tags are {', '.join(known) or 'none'}.")
        self._seed = seed

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw the next `count` tasks of the shuffled order. Every step draws equally many; further ones are random."""
        if further:
            return draws_of("tagged", self._seed, step, further).choices(self._tasks, k=count)
        positions = [divmod(step * count + index, len(self._tasks)) for index in range(count)]
        orders = {epoch: self._order(epoch) for epoch in {epoch for epoch, _ in positions}}
        return [orders[epoch][index] for epoch, index in positions]

    def _order(self, epoch: int) -> list[Task]:
        return random.Random(seed_of("tagged", self._seed, epoch)).sample(self._tasks, len(self._tasks))

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Return no metrics: how groups came out changes nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return nothing: the step says it all."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""
