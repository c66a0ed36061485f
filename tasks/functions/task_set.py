"""The task set `code/functions-v1`: generated function-writing tasks with visible and hidden tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from agentgym.errors import TaskError
from agentgym.task import Split, Task, TaskSet, seed_of

from .families import WRITTEN
from .family import ARGUMENTS, Family, Parameters
from .oracle import oracle
from .pipelines import pipelines

NAME = "code/functions-v1"
SIZES = {"train": 1_200, "validation": 210, "unseen_parameters": 180, "unseen_families": 180}
VISIBLE, HIDDEN = 3, 8
RESERVED = 5
"""Every fifth choice of a family's parameters is kept for the stratum `unseen_parameters`."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build the task set; the seed chooses which tasks of each family are in it.

    Held-out tasks carry the tag `unseen_parameters` (families as in training, other parameters) or
    `unseen_families` (functions of which no sibling is trained on). Difficulty is the band, 1 to 6.
    """
    known = [family for family in (*WRITTEN, *pipelines()) if not family.held_out]
    strange = [family for family in (*WRITTEN, *pipelines()) if family.held_out]
    asked: set[str] = set()

    def draw(split: Split, stratum: str, families: Sequence[Family], reserved: bool | None) -> list[Task]:
        return [_draw(asked, split, stratum, families, reserved, seed, index) for index in range(SIZES[stratum])]

    return TaskSet(
        NAME,
        {
            "held_out": [
                *draw("held_out", "unseen_parameters", known, True),
                *draw("held_out", "unseen_families", strange, None),
            ],
            "validation": draw("validation", "validation", known, False),
            "train": draw("train", "train", known, False),
        },
        oracle=oracle,
    )


def _draw(
    asked: set[str],
    split: Split,
    stratum: str,
    families: Sequence[Family],
    reserved: bool | None,
    seed: int,
    index: int,
) -> Task:
    """Draw a task nobody has: a band, a family of it, parameters. One stream of random numbers a task."""
    rng = random.Random(seed_of(NAME, split, stratum, seed, index))
    bands = sorted({family.band for family in families})
    for _ in range(10_000):
        band = rng.choice(bands)
        family = rng.choice([family for family in families if family.band == band])
        parameters = rng.choice(_pool(family, reserved))
        task = _task(family, parameters, rng, split, stratum, index)
        if task is not None and task.truth["reference"] not in asked:
            asked.add(task.truth["reference"])
            return task
    raise TaskError(f"{NAME}: no unused task is left for {stratum}: ask for fewer than {SIZES[stratum]}.")


def _pool(family: Family, reserved: bool | None) -> list[Parameters]:
    return [
        chosen for place, chosen in enumerate(family.space()) if reserved is None or (place % RESERVED == 0) is reserved
    ]


def _task(
    family: Family, parameters: Parameters, rng: random.Random, split: Split, stratum: str, index: int
) -> Task | None:
    """The task, or None where the drawn inputs do not tell the function from a trivial one."""
    argument = ARGUMENTS[family.takes]
    reference = family.source(parameters)
    solve = _compiled(reference, family.name)
    inputs: dict[str, Any] = {repr(value): value for value in (argument.draw(rng) for _ in range(VISIBLE + HIDDEN + 2))}
    if len(inputs) < VISIBLE + HIDDEN:
        return None
    chosen = [*list(inputs)[: VISIBLE + HIDDEN - 1], repr(argument.edge)]  # the smallest input is a hidden test
    answers = {text: repr(solve(inputs.get(text, argument.edge))) for text in chosen}
    tests = [f"assert {family.name}({text}) == {answer}" for text, answer in answers.items()]
    hidden = list(answers.items())[VISIBLE:]
    same = sum(text == answer for text, answer in hidden)
    commonest = max(sum(answer == other for _, other in hidden) for _, answer in hidden)
    if len(tests) < VISIBLE + HIDDEN or same > HIDDEN // 2 or commonest > HIDDEN // 2:
        return None
    example = next(iter(answers))
    return Task(
        id=f"{stratum}/{index:04d}",
        environment="agentgym/code-v1",
        prompt=(
            f"Write the Python function {family.name}({argument.name}); it takes {argument.words}. "
            f"{family.sentence(parameters)} For example, {family.name}({example}) is {answers[example]}."
        ),
        parameters={"tests": tests[:VISIBLE]},
        truth={"tests": tests[VISIBLE:], "reference": reference},
        split=split,
        tags=(family.name, f"band_{family.band}", *((stratum,) if split == "held_out" else ())),
        difficulty=float(family.band),
    )


def _compiled(source: str, name: str) -> Callable[[Any], Any]:
    """The reference solution as a function. The source is ours: `families.py` and `pipelines.py` wrote it."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    solve: Callable[[Any], Any] = namespace[name]
    return solve
