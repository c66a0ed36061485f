"""Several task sets as one, each task tagged with the set that it comes from."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentgym.errors import TaskError
from agentgym.messages import Message
from agentgym.task.definition import SOURCE, SPLITS, Task, seed_of
from agentgym.task.task_set import TaskSet


def mixed(task_sets: Mapping[str, TaskSet]) -> TaskSet:
    """Return one set with the tasks of several, split by split. Tag each task with `source:` and its set's name.

    If an earlier set already uses a task's id, prefix the id with the name of the task's set. The mixture has a
    scripted player, or an answer, if each of its sets has one.

    Args:
        task_sets: the sets, by the names to use in the tags.
    Raises: TaskError if a set has no training task; SplitLeakError if a task of one set is in a different split of
        another set.
    """
    splits: dict[str, list[Task]] = {split: [] for split in SPLITS}
    origins: dict[str, tuple[TaskSet, Task]] = {}
    for name, task_set in task_sets.items():
        if not task_set["train"]:
            raise TaskError(f"The task set {name} has no training tasks, so it cannot be part of a mixture.")
        for split, rows in splits.items():
            for task in task_set[split]:
                identity = f"{name}:{task.id}" if task.id in origins else task.id
                origins[identity] = task_set, task
                rows.append(replace(task, id=identity, tags=(*task.tags, SOURCE + name)))

    def origin_of(task: Task) -> tuple[TaskSet, Task]:
        """Return a task's set, and the task as the set holds it; a task made during training is returned unchanged."""
        return origins.get(task.id) or (task_sets[task.source or ""], task)

    def player(role: str) -> Callable[[Task], Any] | None:
        if any(getattr(task_set, role) is None for task_set in task_sets.values()):
            return None

        def play(task: Task) -> Any:
            task_set, original = origin_of(task)
            return getattr(task_set, role)(replace(task, id=original.id, tags=original.tags))

        return play

    def generate(task: Task, seed: int) -> Task:
        task_set, original = origin_of(task)
        if task_set.generate is None:
            raise TaskError(f"{task_set.name} cannot generate tasks. Give the TaskSet a function `generate`.")
        return task_set.generate(original, seed)

    answer: Callable[[Task], Message] | None = player("answer")
    return TaskSet(
        " + ".join(task_sets),
        splits,
        oracle=player("oracle"),
        imperfect_oracle=player("imperfect_oracle"),
        answer=answer,
        generate=generate if any(task_set.generate is not None for task_set in task_sets.values()) else None,
    )


def by_weight(tasks: Sequence[Task], count: int, weights: Mapping[str, float], seed: int) -> list[Task]:
    """Choose at most `count` tasks of a mixture without repetition, drawing the set of each by weight.

    Once a set has no task left, draw from the others.
    """
    left: dict[str, list[Task]] = {}
    for task in sorted(tasks, key=lambda task: seed_of(seed, task.id)):
        if weights.get(source := task.source or "", 0.0) > 0:
            left.setdefault(source, []).append(task)
    draws = random.Random(seed_of("mixture", seed))
    chosen: list[Task] = []
    while len(chosen) < count and left:
        source = draws.choices(list(left), [weights[name] for name in left])[0]
        chosen.append(left[source].pop())
        if not left[source]:
            del left[source]
    return chosen
