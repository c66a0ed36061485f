"""The task set `code/maths-v1`: generated problems with one exact answer."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from agentgym.errors import TaskError
from agentgym.messages import Call, Message
from agentgym.task import Split, Task, TaskSet, seed_of

from .families import KNOWN, UNSEEN, Problem

NAME = "code/maths-v1"
SIZES = {"train": 1_200, "validation": 150, "unseen_numbers": 150, "unseen_families": 120}
RESERVED = 5
"""Every fifth question, by a hash of its words, is kept for the stratum `unseen_numbers`."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build the task set; the seed chooses the numbers.

    Held-out tasks carry the tag `unseen_numbers` (families as in training) or `unseen_families`.
    """
    asked: set[str] = set()

    def draw(split: Split, stratum: str, families: Mapping[str, Callable[[random.Random], Problem]]) -> list[Task]:
        return [_draw(asked, split, stratum, families, seed, index) for index in range(SIZES[stratum])]

    held_out = [*draw("held_out", "unseen_numbers", KNOWN), *draw("held_out", "unseen_families", UNSEEN)]
    train, validation = draw("train", "train", KNOWN), draw("validation", "validation", KNOWN)
    splits = {"held_out": held_out, "validation": validation, "train": train}
    return TaskSet(NAME, splits, oracle=oracle, answer=answer)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    """A script of two turns: run the reference, answer what it printed."""

    def script(messages: Sequence[Message]) -> Message:
        if messages[-1].role != "tool":
            return Message("assistant", "", (Call("python", {"code": task.truth["reference"]}),))
        return Message("assistant", "", (Call("answer", {"text": messages[-1].text}),))

    return script


def answer(task: Task) -> Message:
    """The message that answers rightly."""
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))


def _draw(
    asked: set[str],
    split: Split,
    stratum: str,
    families: Mapping[str, Callable[[random.Random], Problem]],
    seed: int,
    index: int,
) -> Task:
    """Draw a problem nobody has, from a stream of random numbers of its own; the families take turns."""
    rng = random.Random(seed_of(NAME, split, stratum, seed, index))
    name = list(families)[index % len(families)]
    for _ in range(10_000):
        question, reference, solution = families[name](rng)
        reserved = zlib.crc32(question.encode()) % RESERVED == 0
        fits = stratum == "unseen_families" or reserved is (stratum == "unseen_numbers")
        if fits and question not in asked:
            asked.add(question)
            return Task(
                id=f"{stratum}/{index:04d}",
                environment="agentgym/code-maths-v1",
                prompt=question,
                truth={"answer": solution, "reference": reference},
                split=split,
                tags=(name, *((stratum,) if split == "held_out" else ())),
                difficulty=1.0 + len(reference.splitlines()) // 2,
            )
    raise TaskError(f"{NAME}: no unused problem of {name} is left for {stratum}: ask for fewer than {SIZES[stratum]}.")
