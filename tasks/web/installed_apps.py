"""Builds the task sets on applications from the package index, with the strata of `web/apps-v1`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from .oracle import imperfect_oracle, oracle
from .plan import WebTemplate
from .task_set import truth_of

SIZES = {"train": 240, "validation": 40, "unseen_tasks": 50, "unseen_worlds": 50, "unseen_templates": 50}
TRAINED_SEEDS, HELD_OUT_SEEDS = range(0, 4), range(100, 102)
"""Seeds of the sites' data. There are few, because every browser must set up the data of each seed that it shows."""


def installed_app_set(
    name: str,
    site: Mapping[str, Any],
    asset: str,
    data_of: Callable[[int], Mapping[str, Any]],
    templates: Sequence[WebTemplate],
    seed: int,
) -> TaskSet:
    """Return the task set of one application.

    Args:
        site: the parameters that all its tasks share.
        asset: the name of the asset with the application's data. data_of: returns the data of a seed in the form that
            templates read.
        seed: chooses which tasks are in the set.
    """

    def task_of(rng: random.Random, slot: TaskSlot, templates: Sequence[WebTemplate], seeds: Sequence[int]) -> Task:
        template, data_seed = rng.choice(templates), rng.choice(seeds)
        plan = template.draw(rng, data_of(data_seed), data_seed)
        return Task(
            id=slot.id,
            environment="agentgym/web-v2",
            prompt=plan.prompt,
            parameters={**site, "data": asset, "seed": data_seed},
            truth=truth_of(plan),
            split=slot.split,
            tags=(template.name, *slot.tags),
            difficulty=template.difficulty,
        )

    trained = [template for template in templates if not template.held_out]
    unseen = [template for template in templates if template.held_out]
    templates_and_seeds = {
        "unseen_worlds": (trained, HELD_OUT_SEEDS),
        "unseen_templates": (unseen, TRAINED_SEEDS),
        "unseen_tasks": (trained, TRAINED_SEEDS),
        "validation": (trained, TRAINED_SEEDS),
        "train": (trained, TRAINED_SEEDS),
    }
    splits = TaskGenerator(name, SIZES, seed).splits(task_of, templates_and_seeds)
    return TaskSet(name, splits, oracle=oracle, imperfect_oracle=imperfect_oracle)
