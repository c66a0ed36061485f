"""The order of tasks where a recipe names no sampler: all of them, shuffled anew each time around."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from agentgym.task import Task, seed_of

Draw = Callable[[int, int], Sequence[Task]]
"""Given how many tasks and the number of the step, the tasks of its groups; fewer where there are no more."""


def shuffled(tasks: Sequence[Task], seed: int) -> Draw:
    """Draws from the tasks without repetition until all had their turn. The same step always gets the same tasks."""

    def at(position: int) -> Task:
        epoch, index = divmod(position, len(tasks))
        order = list(range(len(tasks)))
        random.Random(seed_of("order of tasks", seed, epoch)).shuffle(order)
        return tasks[order[index]]

    return lambda count, step: [at(step * count + offset) for offset in range(count)]
