"""The task set `code/programs-v1`: generated programs from standard input to standard output."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet, seed_of

from ..reference_oracle import oracle
from .languages import LANGUAGES
from .steps import ENDINGS, STEPS, UNSEEN, Chosen, reference, sentence

NAME = "code/programs-v1"
SIZES = {"train": 1_200, "validation": 150, "unseen_programs": 150, "unseen_steps": 150}
EXAMPLES, HIDDEN = 2, 6
RESERVED = 5
"""Every fifth program, by a hash of its steps, is reserved for the stratum `unseen_programs`."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Programs to be written that read numbers and print.

    The seed chooses which programs are in it.

    Held-out tasks carry the tag `unseen_programs` (steps of the training tasks in new combinations) or `unseen_steps`
    (at least one step that no training task has). Difficulty is the number of steps, 1 to 3. Every task has its
    language as a tag.
    """
    used: set[Any] = set()

    def draw(split: Split, stratum: str) -> list[Task]:
        return [_draw(used, split, stratum, seed, index) for index in range(SIZES[stratum])]

    held_out = [*draw("held_out", "unseen_programs"), *draw("held_out", "unseen_steps")]
    splits = {"held_out": held_out, "validation": draw("validation", "validation"), "train": draw("train", "train")}
    return TaskSet(NAME, splits, oracle=oracle)


def _draw(used: set[Any], split: Split, stratum: str, seed: int, index: int) -> Task:
    """Draw a task whose program is not in `used`, from its own random stream."""
    rng = random.Random(seed_of(NAME, split, stratum, seed, index))
    for _ in range(10_000):
        steps: tuple[Chosen, ...] = tuple(_chosen(rng, name) for name in rng.sample(list(STEPS), rng.randint(1, 3)))
        ending = _chosen(rng, rng.choice(list(ENDINGS)))
        has_unseen_step = bool(UNSEEN & {name for name, _ in (*steps, ending)})
        reserved = zlib.crc32(repr((steps, ending)).encode()) % RESERVED == 0
        fits = (
            has_unseen_step
            if stratum == "unseen_steps"
            else not has_unseen_step and reserved is (stratum == "unseen_programs")
        )
        task = _task(rng, steps, ending, split, stratum, index) if fits and (steps, ending) not in used else None
        if task is not None:
            used.add((steps, ending))
            return task
    raise TaskError(f"{NAME}: there is no further program for {stratum}. Ask for fewer than {SIZES[stratum]}.")


def _chosen(rng: random.Random, name: str) -> Chosen:
    k = (STEPS.get(name) or ENDINGS[name]).k
    return name, rng.choice(k) if k else 0


def _task(
    rng: random.Random, steps: Sequence[Chosen], ending: Chosen, split: Split, stratum: str, index: int
) -> Task | None:
    """Make the task; return None if a trivial program would print the right output for the drawn inputs."""
    lists = [[rng.randint(0, 999) for _ in range(rng.randint(3, 12))] for _ in range(EXAMPLES + HIDDEN - 1)]
    cases = [(_stdin(numbers), reference(steps, ending, numbers)) for numbers in (*lists, [])]
    printed = [stdout for _, stdout in cases]
    if max(printed.count(output) for output in printed) > 2:
        return None
    name = list(LANGUAGES)[index % len(LANGUAGES)]  # the same number of tasks for each language
    language = LANGUAGES[name]
    examples, runs = ([{"stdin": a, "stdout": b} for a, b in part] for part in (cases[:EXAMPLES], cases[EXAMPLES:]))
    return Task(
        id=f"{stratum}/{index:04d}",
        environment="agentgym/code-program-v1",
        prompt=(
            f"Write {language.title if name == 'shell' else 'a program in ' + language.title}. The first line of its "
            f"input is how many numbers there are (0 to 100), the second line is the numbers, from 0 to 999, with "
            f"spaces between them. {sentence(steps, ending)}\nExample input:\n{cases[0][0]}Its output:\n{cases[0][1]}"
        ),
        parameters={"program": language.program(), "examples": examples},
        truth={"runs": runs, "reference": language.write(steps, ending)},
        split=split,
        tags=(name, *(chosen for chosen, _ in steps), ending[0], *((stratum,) if split == "held_out" else ())),
        difficulty=float(len(steps)),
    )


def _stdin(numbers: Sequence[int]) -> str:
    return f"{len(numbers)}\n{' '.join(map(str, numbers))}\n"
