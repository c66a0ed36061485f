"""The task set `gui/desktop-v1`: small jobs on a desktop, judged by files and windows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache

from agentgym.errors import TaskError
from agentgym.task import Split, Task, TaskSet, seed_of

from .oracle import novice, oracle
from .templates import KINDS, STRANGE, Job
from .words import KNOWN, UNSEEN, Words

NAME = "gui/desktop-v1"
SIZES = {"train": 400, "validation": 40, "unseen_words": 40, "unseen_jobs": 40}


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build the task set; the seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_words` (other folders, files and things) or `unseen_jobs` (renaming, adding up:
    kinds of which none is trained on).
    """
    asked: set[str] = set()

    def drawn(split: Split, stratum: str, words: Words, kinds: Mapping[str, Maker]) -> list[Task]:
        return [_task(asked, split, stratum, words, kinds, seed, index) for index in range(SIZES[stratum])]

    return TaskSet(
        NAME,
        {
            "held_out": [
                *drawn("held_out", "unseen_words", UNSEEN, KINDS),
                *drawn("held_out", "unseen_jobs", UNSEEN, STRANGE),
            ],
            "validation": drawn("validation", "validation", KNOWN, KINDS),
            "train": drawn("train", "train", KNOWN, KINDS),
        },
        oracle=oracle,
        novice=novice,
    )


Maker = Callable[[random.Random, Words], Job]


def _task(
    asked: set[str], split: Split, stratum: str, words: Words, kinds: Mapping[str, Maker], seed: int, index: int
) -> Task:
    """A task that nobody has, from a stream of random numbers of its own; the kinds take turns."""
    rng = random.Random(seed_of(NAME, split, stratum, seed, index))
    kind = sorted(kinds)[index % len(kinds)]
    for _ in range(100):
        job = kinds[kind](rng, words)
        content = f"{job.prompt}{sorted(job.files.items())}"
        if content not in asked:
            asked.add(content)
            return Task(
                id=f"{stratum}/{index:04d}",
                environment="agentgym/desktop-v1",
                prompt=job.prompt,
                parameters={"files": job.files},
                truth=job.truth,
                split=split,
                tags=(stratum, kind),
                difficulty=float(1 + ("files" in job.truth and len(job.truth["files"]))),
            )
    raise TaskError(f"{NAME}: no unused task of kind {kind} is left for {stratum}.")
