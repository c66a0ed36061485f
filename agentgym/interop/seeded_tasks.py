"""Tasks that differ only by the seed of the reset, for external environments."""

from __future__ import annotations

import random

from agentgym.task.definition import Split, Task, seed_of
from agentgym.task.task_set import TaskSet


def seeded_tasks(name: str, prompt: str, *, train: int, validation: int, held_out: int, seed: int) -> TaskSet:
    """Return a task set that has the name of its environment; `parameters["seed"]` of each task, 31 bits, is
    its own.
    """
    sizes: dict[Split, int] = {"train": train, "validation": validation, "held_out": held_out}

    def task(split: Split, index: int) -> Task:
        drawn = random.Random(seed_of(name, split, seed, index)).getrandbits(31)
        parameters = {"seed": drawn}
        return Task(f"{split}/{index:04d}", name, prompt, parameters=parameters, truth={"seed": drawn}, split=split)

    return TaskSet(name, {split: [task(split, index) for index in range(size)] for split, size in sizes.items()})
