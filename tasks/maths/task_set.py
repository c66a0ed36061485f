"""The task set `code/maths-v1`: generated problems with one exact answer."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from agentgym import Call, Message, Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from .families import KNOWN, UNSEEN, Problem

NAME = "code/maths-v1"
SIZES = {"train": 1_200, "validation": 150, "unseen_numbers": 150, "unseen_families": 120}
RESERVED = 5
"""Every fifth question, by a hash of its text, is reserved for the stratum `unseen_numbers`."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Problems with one exact answer, for an agent that may compute.

    The seed chooses the numbers.

    Held-out tasks carry the tag `unseen_numbers` (families of the training tasks) or `unseen_families` (families that
    no training task has).
    """
    draw = TaskGenerator(NAME, SIZES, seed, key=lambda task: task.prompt, tries=10_000).draw
    held_out = [*draw("unseen_numbers", _task, KNOWN), *draw("unseen_families", _task, UNSEEN)]
    train, validation = draw("train", _task, KNOWN), draw("validation", _task, KNOWN)
    splits = {"held_out": held_out, "validation": validation, "train": train}
    return TaskSet(NAME, splits, oracle=oracle, answer=answer)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    """Play two turns: run the reference, answer with its output."""

    def script(messages: Sequence[Message]) -> Message:
        if messages[-1].role != "tool":
            return Message("assistant", "", (Call("python", {"code": task.truth["reference"]}),))
        return Message("assistant", "", (Call("answer", {"text": messages[-1].text}),))

    return script


def answer(task: Task) -> Message:
    """Return the message that gives the right answer."""
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))


def _task(
    rng: random.Random, slot: TaskSlot, families: Mapping[str, Callable[[random.Random], Problem]]
) -> Task | None:
    """Make a problem; return None if it is reserved for another stratum. Families alternate with the slot's index."""
    name = list(families)[slot.index % len(families)]
    question, reference, solution = families[name](rng)
    reserved = zlib.crc32(question.encode()) % RESERVED == 0
    if slot.stratum != "unseen_families" and reserved is not (slot.stratum == "unseen_numbers"):
        return None
    return Task(
        id=slot.id,
        environment="agentgym/code-maths-v1",
        prompt=question,
        truth={"answer": solution, "reference": reference},
        split=slot.split,
        tags=(name, *slot.tags),
        difficulty=1.0 + len(reference.splitlines()) // 2,
    )
