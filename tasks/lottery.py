"""How tasks are drawn: each from a stream of random numbers of its own, and none that asks what another asks."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

from agentgym.errors import TaskError
from agentgym.task import Split, Task, seed_of

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its set a task will stand. Strata have the name of their split, but for those of the held-out one."""

    stratum: str
    index: int

    @property
    def id(self) -> str:
        return f"{self.stratum}/{self.index:04d}"

    @property
    def split(self) -> Split:
        return "train" if self.stratum == "train" else "validation" if self.stratum == "validation" else "held_out"

    @property
    def tags(self) -> tuple[str, ...]:
        """The stratum of a held-out task: the other splits have one each."""
        return (self.stratum,) if self.split == "held_out" else ()


class Lottery:
    """Draws the tasks of one set. What is drawn first is not left for later: the order of strata matters.

    Args:
        name: of the set.
        sizes: how many tasks each stratum has.
        seed: chooses which tasks are in the set.
        key: what no two tasks of the set may share; by default what they ask. None: they are of so many kinds that no
            two come alike.
        tries: at one task, before it is an error that there is none left.
    """

    def __init__(
        self,
        name: str,
        sizes: Mapping[str, int],
        seed: int,
        *,
        key: Callable[[Task], Hashable] | None = Task.content_key,
        tries: int = 1_000,
    ) -> None:
        self.name, self.sizes, self.seed, self.key, self.tries = name, sizes, seed, key, tries
        self._drawn: set[Hashable] = set()

    def draw(
        self,
        stratum: str,
        attempt: Callable[Concatenate[random.Random, Place, P], Task | None],
        *given: P.args,
        **named: P.kwargs,
    ) -> list[Task]:
        """The tasks of a stratum. Sizes may change alone: a task does not depend on how many others there are.

        Args:
            attempt: makes a task of what it is given, or None where the numbers drawn make no good one.
        Raises: TaskError if a task cannot be drawn.
        """
        return [
            self._one(Place(stratum, index), lambda rng, place: attempt(rng, place, *given, **named))
            for index in range(self.sizes[stratum])
        ]

    def _one(self, place: Place, attempt: Callable[[random.Random, Place], Task | None]) -> Task:
        rng = random.Random(seed_of(self.name, place.split, place.stratum, self.seed, place.index))
        for _ in range(self.tries):
            task = attempt(rng, place)
            if task is not None and self._is_new(task):
                return task
        raise TaskError(
            f"{self.name}: no unused task is left for {place.id} after {self.tries} tries: ask for fewer than "
            f"{self.sizes[place.stratum]} of {place.stratum}."
        )

    def _is_new(self, task: Task) -> bool:
        if self.key is None:
            return True
        key, before = self.key(task), len(self._drawn)
        self._drawn.add(key)
        return len(self._drawn) > before
