"""Draws the tasks of a mixture by the weights of its sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.task import Task, source_of
from agentgym.training.samplers.contract import Sampler, make_random_stream, make_sampler
from agentgym.trajectory import Trajectory


class Sources:
    """Draws for each group a set by its weight, and then one of its tasks.

    No task is drawn twice in a step if its set has enough of them.
    """

    def __init__(self, tasks: Sequence[Task], seed: int, weights: Mapping[str, float]) -> None:
        self._seed = seed
        self._by_source: dict[str, list[Task]] = {}
        for task in tasks:
            if (name := source_of(task) or "") in weights:
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

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Return no metrics: how groups came out changes nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return nothing: the step says it all."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""


def sampler_of(name: str | None, tasks: Sequence[Task], seed: int, weights: Mapping[str, float]) -> Sampler | None:
    """Make the sampler of `train.sampler`, else that of a mixture; return None where tasks are only shuffled.

    Args:
        name: the sampler with its options, such as `curriculum(window=4)`; None where the recipe names none.
        weights: the weight of each set of a mixture.
    Raises: as `make_sampler`.
    """
    if name is not None:
        return make_sampler(name, tasks, seed)
    is_mixture = any(source_of(task) is not None for task in tasks)  # tasks that a stage has made come from no set
    return Sources(tasks, seed, weights) if is_mixture else None
