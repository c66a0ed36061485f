"""Generates the tasks of a set, each from its own random stream, so that no two tasks are alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

from agentgym import Split, Task, TaskError, seed_of

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class TaskSlot:
    """The position of a task in its set.

    Attributes:
        stratum: "train", "validation", or the name of one part of the held-out split, such as "unseen_templates".
        index: counts from 0 within the stratum.
    """

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
        """Return the stratum of a held-out task; empty for the other splits, which have one stratum each."""
        return (self.stratum,) if self.split == "held_out" else ()


class TaskGenerator:
    """Generates the tasks of one set.

    A task that has been generated is not generated again, so the order in which strata are drawn matters.

    Args:
        name: the registered name of the set.
        sizes: number of tasks by stratum.
        seed: chooses which tasks are in the set.
        key: maps a task to a key that no other task of the set may have, by default its content. With None there is no
            check; use it if duplicates are too unlikely to matter.
        tries: number of attempts at one task before an error is raised.
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
        self._used_keys: set[Hashable] = set()

    def draw(
        self,
        stratum: str,
        make_task: Callable[Concatenate[random.Random, TaskSlot, P], Task | None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[Task]:
        """Generate all tasks of a stratum.

        Each slot has its own random stream, so a larger stratum begins with the tasks of a smaller one.

        Args:
            make_task: called with the slot's random generator, the slot and the further arguments. It returns None if
                the drawn numbers do not make a good task; it is then called again.
        Raises: TaskError if no unused task was generated for a slot within `tries` attempts.
        """
        return [
            self._generate(TaskSlot(stratum, index), lambda rng, slot: make_task(rng, slot, *args, **kwargs))
            for index in range(self.sizes[stratum])
        ]

    def splits(
        self, make_task: Callable[..., Task | None], arguments: Mapping[str, Sequence[Any]] | None = None
    ) -> dict[str, list[Task]]:
        """Generate all strata, and return the tasks of each split. The held-out split has all strata other than train
        and validation.

        Args:
            make_task: as in `draw`. arguments: the further arguments of `make_task`, by stratum; strata are drawn in
            this order. By default there are no such arguments, and the order is that of `sizes`.
        Raises: TaskError, as `draw` does.
        """
        splits: dict[str, list[Task]] = {"train": [], "validation": [], "held_out": []}
        for stratum, further in (arguments or dict.fromkeys(self.sizes, ())).items():
            splits[TaskSlot(stratum, 0).split] += self.draw(stratum, make_task, *further)
        return splits

    def _generate(self, slot: TaskSlot, make_task: Callable[[random.Random, TaskSlot], Task | None]) -> Task:
        rng = random.Random(seed_of(self.name, slot.split, slot.stratum, self.seed, slot.index))
        for _ in range(self.tries):
            task = make_task(rng, slot)
            if task is not None and self._is_unused(task):
                return task
        raise TaskError(
            f"{self.name}: no new task was found for {slot.id} in {self.tries} tries. Ask for fewer than "
            f"{self.sizes[slot.stratum]} tasks of {slot.stratum}."
        )

    def _is_unused(self, task: Task) -> bool:
        """Return whether the task's key is new, and mark the key as used."""
        if self.key is None:
            return True
        key, used_before = self.key(task), len(self._used_keys)
        self._used_keys.add(key)
        return len(self._used_keys) > used_before
