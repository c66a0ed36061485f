"""The task set `code/functions-v1`: generated function-writing tasks with visible and hidden tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from agentgym import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from ..reference_oracle import oracle
from .families import WRITTEN
from .family import ARGUMENTS, Family, Parameters
from .pipelines import pipelines

NAME = "code/functions-v1"
SIZES = {"train": 1_200, "validation": 210, "unseen_parameters": 180, "unseen_families": 180}
VISIBLE, HIDDEN = 3, 8
RESERVED = 5
"""Every fifth combination of a family's parameters is reserved for the stratum `unseen_parameters`."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Python functions to be written from a description.

    The seed chooses which tasks of each family are in it.

    Held-out tasks carry the tag `unseen_parameters` (families of the training tasks, with other parameters) or
    `unseen_families` (families that no training task has). Difficulty is the band, 1 to 6.
    """
    known = [family for family in (*WRITTEN, *pipelines()) if not family.held_out]
    unseen = [family for family in (*WRITTEN, *pipelines()) if family.held_out]
    generator = TaskGenerator(NAME, SIZES, seed, key=lambda task: task.truth["reference"], tries=10_000)
    families_and_pools: dict[str, tuple[list[Family], bool | None]] = {
        "unseen_parameters": (known, True),
        "unseen_families": (unseen, None),
        "validation": (known, False),
        "train": (known, False),
    }
    return TaskSet(NAME, generator.splits(_draw, families_and_pools), oracle=oracle)


def _draw(rng: random.Random, slot: TaskSlot, families: Sequence[Family], reserved: bool | None) -> Task | None:
    """Draw a band, one of its families and its parameters, and make the task."""
    band = rng.choice(sorted({family.band for family in families}))
    family = rng.choice([family for family in families if family.band == band])
    return _task(rng, slot, family, rng.choice(_pool(family, reserved)))


def _pool(family: Family, reserved: bool | None) -> list[Parameters]:
    return [
        parameters
        for number, parameters in enumerate(family.space())
        if reserved is None or (number % RESERVED == 0) is reserved
    ]


def _task(rng: random.Random, slot: TaskSlot, family: Family, parameters: Parameters) -> Task | None:
    """Make the task; return None if a trivial function would give the right values for the drawn inputs."""
    argument = ARGUMENTS[family.takes]
    reference = family.source(parameters)
    solve = _compiled(reference, family.name)
    inputs: dict[str, Any] = {repr(value): value for value in (argument.draw(rng) for _ in range(VISIBLE + HIDDEN + 2))}
    if len(inputs) < VISIBLE + HIDDEN:
        return None
    input_texts = [*list(inputs)[: VISIBLE + HIDDEN - 1], repr(argument.edge)]  # the smallest input is a hidden test
    answers = {text: repr(solve(inputs.get(text, argument.edge))) for text in input_texts}
    tests = [f"assert {family.name}({text}) == {answer}" for text, answer in answers.items()]
    hidden = list(answers.items())[VISIBLE:]
    unchanged = sum(text == answer for text, answer in hidden)
    commonest = max(sum(answer == a for _, a in hidden) for _, answer in hidden)
    if len(tests) < VISIBLE + HIDDEN or unchanged > HIDDEN // 2 or commonest > HIDDEN // 2:
        return None
    example = next(iter(answers))
    return Task(
        id=slot.id,
        environment="agentgym/code-v1",
        prompt=(
            f"Write the Python function {family.name}({argument.name}); it takes {argument.words}. "
            f"{family.sentence(parameters)} For example, {family.name}({example}) is {answers[example]}."
        ),
        parameters={"tests": tests[:VISIBLE]},
        truth={"tests": tests[VISIBLE:], "reference": reference},
        split=slot.split,
        tags=(family.name, f"band_{family.band}", *slot.tags),
        difficulty=float(family.band),
    )


def _compiled(source: str, name: str) -> Callable[[Any], Any]:
    """Return the reference solution as a function. Its source comes from this package, so it is executed here."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    solve: Callable[[Any], Any] = namespace[name]
    return solve
