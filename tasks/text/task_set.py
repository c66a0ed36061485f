"""The task sets of the text worlds: which levels are trained on, which are kept, and how many tasks each has."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from agentgym.registry import load
from agentgym.task import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot

SIZES = {"train": 1_200, "validation": 120, "unseen_instances": 120, "unseen_kinds": 120}


def _build(
    world: str, trained: Sequence[int], kept: Sequence[int], seed: int, sizes: Mapping[str, int] = SIZES
) -> TaskSet:
    """Draw every split from the world's generator; no two tasks ask the same.

    Args:
        trained: levels of train, validation and the stratum `unseen_instances`; one named twice comes twice as often.
        kept: levels of the stratum `unseen_kinds`, of which no task is trained on.
    """
    name = f"text/{world}-v1"
    kind: Any = load("environments", f"agentgym/text-{world}-v1")
    draw = TaskGenerator(name, sizes, seed).draw
    held_out = draw("unseen_instances", _task, kind, trained) + draw("unseen_kinds", _task, kind, kept)
    validation = draw("validation", _task, kind, trained)  # before train, which uses small levels up
    splits = {"train": draw("train", _task, kind, trained), "validation": validation, "held_out": held_out}
    players = {
        "oracle": kind.oracle,
        "imperfect_oracle": getattr(kind, "imperfect_oracle", None),
        "answer": getattr(kind, "gold", None),
    }
    return TaskSet(name, splits, **players)


def _task(rng: random.Random, slot: TaskSlot, kind: Any, levels: Sequence[int]) -> Task:
    task: Task = kind.generate(rng.getrandbits(62), rng.choice(levels))
    return replace(task, id=slot.id, split=slot.split, tags=(*task.tags, *slot.tags))


@cache
def number_guess(seed: int = 0) -> TaskSet:
    """Numbers in ranges of 7 to 48; kept: ranges of 100 and more."""
    return _build("number-guess", range(6), (6, 7, 8), seed)


@cache
def frozen_lake(seed: int = 0) -> TaskSet:
    """Lakes of 4 to 6 squares a side; kept: 7 to 9."""
    return _build("frozen-lake", range(6), (6, 7, 8), seed)


@cache
def sokoban(seed: int = 0) -> TaskSet:
    """One and two boxes in rooms of 4 to 6 squares a side; kept: three boxes, in rooms of 6 and 7."""
    return _build("sokoban", range(6), (6, 7), seed)


@cache
def countdown(seed: int = 0) -> TaskSet:
    """Three and four numbers; kept: five and six."""
    return _build("countdown", range(5), (5, 6, 7), seed)


@cache
def sudoku(seed: int = 0) -> TaskSet:
    """Grids of 4 by 4 and 6 by 6; kept: 9 by 9."""
    return _build("sudoku", range(6), (7,), seed)


@cache
def wordle(seed: int = 0) -> TaskSet:
    """Words of four and five letters; kept: six letters."""
    return _build("wordle", range(6), (6, 7), seed)


@cache
def twenty_questions(seed: int = 0) -> TaskSet:
    """Animals, food and what lies about a house; kept: instruments, vehicles and buildings."""
    return _build("twenty-questions", range(6), (6, 7, 8), seed)


@cache
def adventure(seed: int = 0) -> TaskSet:
    """Up to five rooms, two locks and two things; kept: up to eight rooms, and nothing is told of where things are.

    Half of the tasks are of the two easiest levels, so that a small policy finds enough of them to begin with.
    """
    return _build("adventure", (0, 0, 1, 1, 2, 3, 4, 5), (6, 7, 8), seed, {**SIZES, "train": 2_400})
