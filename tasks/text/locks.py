"""`text/locks-v1`: locks that no agent opens by chance, and locks whose prompts give the words.

For methods that help a policy in training.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from agentgym import Task, TaskSet, load

from ..generator import TaskGenerator, TaskSlot

NAME = "text/locks-v1"
TRAINED, RESERVED = (4, 5, 6), (7, 8)
KINDS = ("house", "own")
TRAIN_KINDS = ("house", *["own"] * 4)
"""Kinds of training tasks.

`own` is four times as frequent: a policy needs many different notes to learn to copy them.
"""
PER_SIZE = {"train": 400, "validation": 40, "unseen_instances": 60, "unseen_sizes": 60}


@cache
def locks(seed: int = 0) -> TaskSet:
    """Locks of up to eight wheels to be set, each step shown.

    See CARD.md for the number of tasks of every size and kind.
    """
    sizes = {stratum: RESERVED if stratum == "unseen_sizes" else TRAINED for stratum in PER_SIZE}
    kinds = {stratum: TRAIN_KINDS if stratum == "train" else KINDS for stratum in PER_SIZE}
    counts = {stratum: count * len(kinds[stratum]) * len(sizes[stratum]) for stratum, count in PER_SIZE.items()}
    environment: Any = load("environments", "agentgym/text-locks-v1")
    generator = TaskGenerator(NAME, counts, seed)
    splits = generator.splits(_task, {stratum: (environment, sizes[stratum], kinds[stratum]) for stratum in counts})
    return TaskSet(NAME, splits, oracle=environment.oracle, imperfect_oracle=environment.imperfect_oracle)


def _task(rng: random.Random, slot: TaskSlot, environment: Any, sizes: Sequence[int], kinds: Sequence[str]) -> Task:
    """Make one task. With its index, sizes take turns; after each round of all sizes the next kind follows."""
    rounds, index = divmod(slot.index, len(sizes))
    kind, wheels = kinds[rounds % len(kinds)], sizes[index]
    own = kind == "own"
    noted = rng.choice((wheels, rng.randint(0, wheels))) if own else 0
    task: Task = environment.generate(rng.getrandbits(62), wheels=wheels, own=int(own), noted=noted)
    hints = () if own else tuple(environment.notes(task))
    unseen = (f"unseen_{kind}_{wheels}", *slot.tags) if slot.split == "held_out" else ()
    tags = (kind, f"{kind}_{wheels}", *unseen)
    return replace(task, id=slot.id, split=slot.split, tags=tags, difficulty=float(wheels), hints=hints)
