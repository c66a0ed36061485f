"""Draw the tasks of a mixture by the weights of its sets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from agentgym.task.definition import Task, seed_of
from agentgym.training.samplers.contract import Sampler, make_random_stream, make_sampler


class Shuffled(Sampler):
    """Draw every task once before any task again. Every step must draw the same number of tasks."""

    def __init__(self, name: str, tasks: Sequence[Task], seed: int) -> None:
        self._name, self._tasks, self._seed = name, list(tasks), seed

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw the next `count` tasks of the shuffled order; a step's further draws are random."""
        if further:
            return make_random_stream(self._name, self._seed, step, further).choices(self._tasks, k=count)
        positions = [divmod(step * count + index, len(self._tasks)) for index in range(count)]
        orders = {epoch: self._order(epoch) for epoch in {epoch for epoch, _ in positions}}
        return [orders[epoch][index] for epoch, index in positions]

    def _order(self, epoch: int) -> list[Task]:
        return random.Random(seed_of(self._name, self._seed, epoch)).sample(self._tasks, len(self._tasks))


class Sources(Sampler):
    """Draw for each group a set by its weight, and then one of the set's tasks.

    Within one call of `draw`, no task repeats if its set has enough tasks.
    """

    def __init__(self, tasks: Sequence[Task], seed: int, weights: Mapping[str, float]) -> None:
        self._seed = seed
        self._by_source: dict[str, list[Task]] = {}
        for task in tasks:
            if (name := task.source or "") in weights:
                self._by_source.setdefault(name, []).append(task)
        self._weights = {name: weights[name] for name in self._by_source}

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw the tasks of a step."""
        draws = make_random_stream("sources", self._seed, step, further)
        sources = draws.choices(list(self._weights), list(self._weights.values()), k=count)
        shuffled = {name: draws.sample(tasks, len(tasks)) for name, tasks in self._by_source.items() if name in sources}
        taken: Counter[str] = Counter()
        chosen = []
        for name in sources:
            chosen.append(shuffled[name][taken[name] % len(shuffled[name])])
            taken[name] += 1
        return chosen


def sampler_of(name: str | None, tasks: Sequence[Task], seed: int, weights: Mapping[str, float]) -> Sampler | None:
    """Make the sampler of `train.sampler`, or else one for a mixture; return None if tasks are only shuffled.

    Args:
        name: the sampler with its options, such as `curriculum(window=4)`; None if the recipe names none.
        weights: the weight of each set of a mixture.
    Raises: as `make_sampler`.
    """
    if name is not None:
        return make_sampler(name, tasks, seed)
    is_mixture = any(task.source is not None for task in tasks)  # tasks that a stage has made come from no set
    return Sources(tasks, seed, weights) if is_mixture else None
