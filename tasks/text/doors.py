"""`text/doors-v1`: the same kind of decision in each of 2 to 32 turns.

Either every decision counts, or only the first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from agentgym import Task, TaskSet, load

from ..generator import TaskGenerator, TaskSlot

NAME = "text/doors-v1"
TRAINED, RESERVED = (2, 4, 8, 16, 32), (3, 6, 12, 24)
COUNTS = ("every_door", "first_door")
PER_HORIZON = {"train": 400, "validation": 40, "unseen_instances": 40, "unseen_horizons": 40}


@cache
def doors(seed: int = 0) -> TaskSet:
    """Keys to be taken over 2 to 32 turns: all of them count, or only the first.

    Every horizon has equally many tasks of both kinds; see CARD.md.
    """
    horizons = {stratum: RESERVED if stratum == "unseen_horizons" else TRAINED for stratum in PER_HORIZON}
    sizes = {stratum: len(COUNTS) * len(horizons[stratum]) * count for stratum, count in PER_HORIZON.items()}
    environment: Any = load("environments", "agentgym/text-doors-v1")
    generator = TaskGenerator(NAME, sizes, seed)
    splits = generator.splits(_task, {stratum: (environment, horizons[stratum]) for stratum in sizes})
    return TaskSet(
        NAME,
        splits,
        oracle=environment.oracle,
        imperfect_oracle=environment.imperfect_oracle,
        generate=lambda task, seed: _like(task, seed, environment),
    )


def _like(task: Task, seed: int, environment: Any) -> Task:
    """Return a new row of doors with the task's number and kind, and with keys that training tasks may have."""
    horizon, first = task.parameters["horizon"], int(task.parameters["counts"] == "first")
    new_task: Task = environment.generate(seed, horizon=horizon, first=first, reserved=0)
    return new_task


def _task(rng: random.Random, slot: TaskSlot, environment: Any, horizons: Sequence[int]) -> Task:
    """Make one task. Horizons alternate with the slot's index; after each round of all horizons the kind changes."""
    rounds, index = divmod(slot.index, len(horizons))
    kind, horizon = COUNTS[rounds % len(COUNTS)], horizons[index]
    task: Task = environment.generate(
        rng.getrandbits(62),
        horizon=horizon,
        first=int(kind == "first_door"),
        reserved=int(slot.stratum == "unseen_instances"),
    )
    tags = (f"horizon_{horizon}", kind, f"{kind}_{horizon}", *slot.tags)
    return replace(task, id=slot.id, split=slot.split, tags=tags, difficulty=float(horizon))
