"""The task sets of the text games: which levels are trained on, which are reserved, and how many tasks there are."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from agentgym import Task, TaskSet, load

from ..generator import TaskGenerator, TaskSlot

SIZES = {"train": 1_200, "validation": 120, "unseen_instances": 120, "unseen_kinds": 120}


def _build(
    game: str, trained: Sequence[int], reserved: Sequence[int], seed: int, sizes: Mapping[str, int] = SIZES
) -> TaskSet:
    """Generate every split with the environment's `generate`, without two equal tasks.

    Args:
        trained: levels of train, validation and the stratum `unseen_instances`. A level listed twice is drawn twice
            as often.
        reserved: levels of the stratum `unseen_kinds`, which no training task has.
    """
    name = f"text/{game}-v1"
    environment: Any = load("environments", f"agentgym/text-{game}-v1")
    draw = TaskGenerator(name, sizes, seed).draw
    held_out = draw("unseen_instances", _task, environment, trained) + draw(
        "unseen_kinds", _task, environment, reserved
    )
    validation = draw("validation", _task, environment, trained)  # before train, which exhausts small levels
    splits = {"train": draw("train", _task, environment, trained), "validation": validation, "held_out": held_out}
    players = {
        "oracle": environment.oracle,
        "imperfect_oracle": getattr(environment, "imperfect_oracle", None),
        "answer": getattr(environment, "gold", None),
        "generate": lambda task, seed: environment.generate(seed, int(task.difficulty)),
    }
    return TaskSet(name, splits, **players)


def _task(rng: random.Random, slot: TaskSlot, environment: Any, levels: Sequence[int]) -> Task:
    task: Task = environment.generate(rng.getrandbits(62), rng.choice(levels))
    return replace(task, id=slot.id, split=slot.split, tags=(*task.tags, *slot.tags))


@cache
def number_guess(seed: int = 0) -> TaskSet:
    """Numbers in ranges of 7 to 48; reserved: ranges of 100 and more."""
    return _build("number-guess", range(6), (6, 7, 8), seed)


@cache
def frozen_lake(seed: int = 0) -> TaskSet:
    """Lakes of 4 to 6 squares a side; reserved: 7 to 9."""
    return _build("frozen-lake", range(6), (6, 7, 8), seed)


@cache
def sokoban(seed: int = 0) -> TaskSet:
    """One and two boxes in rooms of 4 to 6 squares a side; reserved: three boxes, in rooms of 6 and 7."""
    return _build("sokoban", range(6), (6, 7), seed)


@cache
def countdown(seed: int = 0) -> TaskSet:
    """Three and four numbers; reserved: five and six."""
    return _build("countdown", range(5), (5, 6, 7), seed)


@cache
def sudoku(seed: int = 0) -> TaskSet:
    """Grids of 4 by 4 and 6 by 6; reserved: 9 by 9."""
    return _build("sudoku", range(6), (7,), seed)


@cache
def wordle(seed: int = 0) -> TaskSet:
    """Words of four and five letters; reserved: six letters."""
    return _build("wordle", range(6), (6, 7), seed)


@cache
def twenty_questions(seed: int = 0) -> TaskSet:
    """Animals, food and household objects; reserved: instruments, vehicles and buildings."""
    return _build("twenty-questions", range(6), (6, 7, 8), seed)


@cache
def adventure(seed: int = 0) -> TaskSet:
    """Up to five rooms, two locks and two things; reserved: up to eight rooms, without hints where things are.

    Half of the tasks are of the two easiest levels, so that a small policy has enough tasks to begin with.
    """
    return _build("adventure", (0, 0, 1, 1, 2, 3, 4, 5), (6, 7, 8), seed, {**SIZES, "train": 2_400})


@cache
def fiction(seed: int = 0) -> TaskSet:
    """Up to seven rooms and four obstacles in six places; reserved: two other places, and another kind of obstacle."""
    return _build("fiction", range(4), (4, 5, 6), seed)
