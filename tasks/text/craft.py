"""`text/craft-v1`: goals of tech trees, of depth 1 to 8. Other goals, deeper goals and other trees are held out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from agentgym import Split, Task, TaskSet, load, seed_of

NAME = "text/craft-v1"
TREES, OTHER_TREES = 120, 20
TRAINED, RESERVED = (1, 2, 3, 4, 5, 6), (7, 8)
"""Depths of goals in training tasks, and depths that no training task has."""


@cache
def craft(seed: int = 0) -> TaskSet:
    """Things to be made with an invented tech tree.

    Training has all goals of the depths `TRAINED` in each of `TREES` trees, but one for validation and two held out;
    see CARD.md.
    """
    environment: Any = load("environments", "agentgym/text-craft-v1")
    splits: dict[str, list[Task]] = {"train": [], "validation": [], "held_out": []}
    strata: dict[str, list[Task]] = {"train": [], "validation": [], "unseen_goals": [], "deeper_goals": []}
    for number in range(TREES):
        for stratum, tree, goal in _goals(environment, seed, number):
            strata[stratum].append(_task(environment, stratum, len(strata[stratum]), tree, goal))
    strata["unseen_trees"] = []
    for number in range(TREES, TREES + OTHER_TREES):
        tree = _tree(environment, seed, number)
        for depth in (*TRAINED, *RESERVED):
            goal = _chosen(environment, tree, depth)
            strata["unseen_trees"].append(_task(environment, "unseen_trees", len(strata["unseen_trees"]), tree, goal))
    for tasks in strata.values():
        splits[tasks[0].split] += tasks
    return TaskSet(
        NAME,
        splits,
        oracle=environment.oracle,
        imperfect_oracle=environment.imperfect_oracle,
        generate=lambda task, seed: environment.generate(seed, int(task.difficulty) - 1),
    )


def _goals(environment: Any, seed: int, number: int) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the goals of a tree, each with its stratum."""
    tree = _tree(environment, seed, number)
    other = {
        _chosen(environment, tree, TRAINED[number % len(TRAINED)]): "validation",
        _chosen(environment, tree, TRAINED[(number + 3) % len(TRAINED)]): "unseen_goals",
        _chosen(environment, tree, RESERVED[number % len(RESERVED)]): "deeper_goals",
    }
    for goal, depth in environment.depths_in(tree).items():
        if goal in other:
            yield other[goal], tree, goal
        elif depth in TRAINED:
            yield "train", tree, goal


def _tree(environment: Any, seed: int, number: int) -> dict[str, Any]:
    tree: dict[str, Any] = environment.tree(1 + number + seed * (TREES + OTHER_TREES))
    return tree


def _chosen(environment: Any, tree: dict[str, Any], depth: int) -> str:
    """Return a goal of this depth."""
    goals = [name for name, own in environment.depths_in(tree).items() if own == depth]
    return str(random.Random(seed_of(NAME, *goals)).choice(goals))


def _task(environment: Any, stratum: str, index: int, tree: dict[str, Any], goal: str) -> Task:
    name = f"{stratum}/{index:04d}"
    start = random.Random(seed_of(NAME, name, goal)).choice(sorted(tree["sites"]))
    split: Split = "train" if stratum == "train" else "validation" if stratum == "validation" else "held_out"
    task: Task = environment.task_of(name, tree, goal, start, split=split)
    return replace(task, tags=(*task.tags, stratum)) if split == "held_out" else task
