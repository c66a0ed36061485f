"""Chooses the tasks of a training step; `train.sampler` names one of the registered kind `samplers`."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agentgym.credit.named_parts import load_part, parse_part
from agentgym.moved import moved_names
from agentgym.task.definition import Task, seed_of
from agentgym.trajectory.record import Trajectory

__all__ = [
    "Sampler",
    "Shuffled",
    "make_random_stream",
]

FILE = "sampler.json"


class Sampler(Protocol):
    """Chooses the tasks of each step. A sampler is made from the training tasks, a seed and its own options.

    The same seed, step and state must give the same tasks, so that a resumed run plays the same tasks as an
    uninterrupted run. A class that derives from this one needs only `draw` if it learns nothing.
    """

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Choose the tasks of a step; each gets a group of episodes.

        Args:
            step: the number of batches of episodes before this step's.
            further: 0 for the step's first draw, 1 for its first draw of further tasks, 2 for the next, and so on.
        """
        ...

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Learn from the results of a step's groups, which include failed episodes. Returns: metrics to log."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as JSON-compatible data."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state` returned. Raises: TaskError if it belongs to other tasks."""
        return None


def make_random_stream(name: str, seed: int, step: int, further: int) -> random.Random:
    """Make the random stream of a draw, distinct for each sampler, seed, step and further draw."""
    return random.Random(seed_of(name, seed, step, *([further] if further else [])))


def make_sampler(text: str, tasks: Sequence[Task], seed: int) -> Sampler:
    """Make a sampler from its name and options: `curriculum(window=4)`.

    Raises: UnknownNameError; CreditError for unknown options; TaskError for tasks that the sampler cannot draw from.
    """
    part = parse_part(text)
    sampler: Sampler = load_part("samplers", part.name, part.options)(tasks, seed)
    return sampler


def save_sampler(sampler: Sampler, folder: Path) -> None:
    """Write the state of a sampler into a checkpoint's folder."""
    (folder / FILE).write_text(json.dumps(sampler.state()), encoding="utf-8")


def restore_sampler(sampler: Sampler, folder: Path) -> None:
    """Restore a sampler's state from a checkpoint's folder, if there is one. Raises: as `Sampler.load` does."""
    if (file := folder / FILE).is_file():
        sampler.load(json.loads(file.read_text(encoding="utf-8")))


class Shuffled(Sampler):
    """Draws every task once before any task again. Every step must draw the same number of tasks."""

    def __init__(self, name: str, tasks: Sequence[Task], seed: int) -> None:
        self._name, self._tasks, self._seed = name, list(tasks), seed
        self._latest: set[str] = set()

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw the next `count` tasks of the shuffled order.

        A step's further draws are random tasks other than those of the latest step's, if there are enough others.
        """
        if further:
            others = [task for task in self._tasks if task.id not in self._latest] or self._tasks
            rng = make_random_stream(self._name, self._seed, step, further)
            return rng.sample(others, count) if count <= len(others) else rng.choices(others, k=count)
        positions = [divmod(step * count + index, len(self._tasks)) for index in range(count)]
        orders = {epoch: self._order(epoch) for epoch in {epoch for epoch, _ in positions}}
        tasks = [orders[epoch][index] for epoch, index in positions]
        self._latest = {task.id for task in tasks}
        return tasks

    def _order(self, epoch: int) -> list[Task]:
        return random.Random(seed_of(self._name, self._seed, epoch)).sample(self._tasks, len(self._tasks))


class Sources(Sampler):
    """Draws for each group a set by its weight, and then one of the set's tasks.

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


def sampler_of(name: str | None, tasks: Sequence[Task], seed: int, weights: Mapping[str, float]) -> Sampler:
    """Make the sampler of `train.sampler`, or else one that draws a mixture by its weights, or shuffles one set.

    Args:
        name: the sampler with its options, such as `curriculum(window=4)`; None if the recipe names none.
        weights: the weight of each set of a mixture.
    Raises: as `make_sampler`.
    """
    if name is not None:
        return make_sampler(name, tasks, seed)
    is_mixture = any(task.source is not None for task in tasks)  # tasks made by a stage come from no set
    return Sources(tasks, seed, weights) if is_mixture else Shuffled("shuffled", tasks, seed)


__getattr__ = moved_names(__name__)
