"""The task set `code/verified-v1`: the functions of `code/functions-v1`, each with mutants that good tests detect."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from agentgym import Call, Message, Task, TaskSet, load_task_set, seed_of

from ..mutation import mutants

NAME, MATERIAL = "code/verified-v1", "code/functions-v1"
MUTANTS = 2
"""The largest number of mutants of one function."""


@cache
def task_set() -> TaskSet:
    """Python functions to be written together with tests that show them to be right.

    Splits, strata and difficulty are those of `code/functions-v1`; functions without mutants (those with a `while`
    loop) are left out.
    """
    material = load_task_set(MATERIAL)
    splits: dict[str, list[Task]] = {
        split: [verified for task in material[split] if (verified := _task(task)) is not None]
        for split in TaskSet.SPLITS
    }
    return TaskSet(NAME, splits, oracle=oracle)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    """Play two turns: check the reference solution with the hidden tests, then submit both."""
    arguments = {"code": task.truth["reference"], "tests": list(task.truth["tests"])}

    def script(messages: Sequence[Message]) -> Message:
        return Message("assistant", "", (Call("submit" if messages[-1].role == "tool" else "check", arguments),))

    return script


def _task(task: Task) -> Task | None:
    tests = [*task.parameters["tests"], *task.truth["tests"]]
    rng = random.Random(seed_of(NAME, task.split, task.id))
    wrong = mutants(task.truth["reference"], tests, rng, limit=MUTANTS)
    if not wrong:
        return None
    truth = {**task.truth, "tests": tests, "mutants": wrong}
    return replace(task, environment="agentgym/code-verified-v1", parameters={}, truth=truth)
