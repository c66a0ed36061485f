"""The task set `code/verified-v1`: the functions of `code/functions-v1`, each with mutants that good tests notice."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from agentgym.messages import Call, Message
from agentgym.registry import load_task_set
from agentgym.task import SPLITS, Task, TaskSet, seed_of

from ..mutation import mutants

NAME, MATERIAL = "code/verified-v1", "code/functions-v1"
MOST = 2


@cache
def task_set() -> TaskSet:
    """Build the task set. Splits, strata and difficulty are those of `code/functions-v1`; a function of which no mutant
    can be made (one with a `while` loop) is left out."""
    material = load_task_set(MATERIAL)
    splits: dict[str, list[Task]] = {
        split: [made for task in material[split] if (made := _task(task)) is not None] for split in SPLITS
    }
    return TaskSet(NAME, splits, oracle=oracle)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    """A script of two turns: check the reference with the hidden tests, submit both."""
    arguments = {"code": task.truth["reference"], "tests": list(task.truth["tests"])}

    def script(messages: Sequence[Message]) -> Message:
        return Message("assistant", "", (Call("submit" if messages[-1].role == "tool" else "check", arguments),))

    return script


def _task(task: Task) -> Task | None:
    tests = [*task.parameters["tests"], *task.truth["tests"]]
    rng = random.Random(seed_of(NAME, task.split, task.id))
    wrong = mutants(task.truth["reference"], tests, rng, most=MOST)
    if not wrong:
        return None
    truth = {**task.truth, "tests": tests, "mutants": wrong}
    return replace(task, environment="agentgym/code-verified-v1", parameters={}, truth=truth)
