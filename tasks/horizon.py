"""Task sets whose tasks differ in their horizon: the number of their requests, one for each turn of an optimal
player.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from agentgym import Task, TaskSet

from .generator import TaskGenerator, TaskSlot

HORIZONS = (2, 4, 8, 16, 32)
UNSEEN_HORIZONS = (3, 6, 12, 24)
PER_HORIZON = {"train": 400, "validation": 40, "unseen_instances": 40, "unseen_horizons": 40}


def horizon_task_set(
    name: str,
    make_task: Callable[[random.Random, TaskSlot, int], Task],
    seed: int,
    *,
    stream: str | None = None,
    oracle: Callable[[Task], Any],
    imperfect_oracle: Callable[[Task], Any],
) -> TaskSet:
    """Generate every split. A task's index in its stratum determines its horizon, by turns; its tag `horizon_N` states
    it.

    Args:
        make_task: makes a task from a random stream, the slot and a horizon.
        stream: name of the random streams, by default the set's name: sets with the same stream have the same tasks.
        oracle: as in TaskSet.
        imperfect_oracle: as in TaskSet.
    """
    horizons = {stratum: UNSEEN_HORIZONS if stratum == "unseen_horizons" else HORIZONS for stratum in PER_HORIZON}
    sizes = {stratum: count * len(horizons[stratum]) for stratum, count in PER_HORIZON.items()}
    generator = TaskGenerator(stream or name, sizes, seed, key=None)

    def make(rng: random.Random, slot: TaskSlot) -> Task:
        chosen = horizons[slot.stratum]
        return make_task(rng, slot, chosen[slot.index % len(chosen)])

    splits = {
        "train": generator.draw("train", make),
        "validation": generator.draw("validation", make),
        "held_out": [*generator.draw("unseen_instances", make), *generator.draw("unseen_horizons", make)],
    }
    return TaskSet(name, splits, oracle=oracle, imperfect_oracle=imperfect_oracle)
