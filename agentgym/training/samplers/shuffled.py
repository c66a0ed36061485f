"""Tasks in an order that is shuffled anew whenever all of them have been drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.task import Task, seed_of
from agentgym.training.samplers.contract import make_random_stream
from agentgym.trajectory import Trajectory


class Shuffled:
    """Draws all of its tasks once before it draws one again. Every step draws equally many."""

    def __init__(self, name: str, tasks: Sequence[Task], seed: int) -> None:
        self._name, self._tasks, self._seed = name, list(tasks), seed

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw the next `count` tasks of the shuffled order; further ones of a step are random."""
        if further:
            return make_random_stream(self._name, self._seed, step, further).choices(self._tasks, k=count)
        positions = [divmod(step * count + index, len(self._tasks)) for index in range(count)]
        orders = {epoch: self._order(epoch) for epoch in {epoch for epoch, _ in positions}}
        return [orders[epoch][index] for epoch, index in positions]

    def _order(self, epoch: int) -> list[Task]:
        return random.Random(seed_of(self._name, self._seed, epoch)).sample(self._tasks, len(self._tasks))

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Return no metrics: how groups came out changes nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return nothing: the step says it all."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""
