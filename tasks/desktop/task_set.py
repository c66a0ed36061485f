"""The task set `gui/desktop-v1`: small jobs on a desktop, judged by the resulting files and windows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache

from agentgym import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from .oracle import imperfect_oracle, oracle
from .templates import KINDS, UNSEEN_KINDS, DesktopJob
from .words import KNOWN, UNSEEN, DesktopVocabulary

NAME = "gui/desktop-v1"
SIZES = {"train": 400, "validation": 40, "unseen_words": 40, "unseen_jobs": 40}


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Small jobs on a desktop with an editor, a file manager, a calculator and a terminal.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_words` (folders, files and things that no training task has) or `unseen_jobs`
    (renaming and adding up, which no training task asks for).
    """
    vocabularies_and_kinds = {
        "unseen_words": (UNSEEN, KINDS),
        "unseen_jobs": (UNSEEN, UNSEEN_KINDS),
        "validation": (KNOWN, KINDS),
        "train": (KNOWN, KINDS),
    }
    splits = TaskGenerator(NAME, SIZES, seed).splits(_task, vocabularies_and_kinds)
    return TaskSet(NAME, splits, oracle=oracle, imperfect_oracle=imperfect_oracle)


Maker = Callable[[random.Random, DesktopVocabulary], DesktopJob]


def _task(rng: random.Random, slot: TaskSlot, words: DesktopVocabulary, kinds: Mapping[str, Maker]) -> Task:
    """Make one task. Kinds alternate with the slot's index."""
    kind = sorted(kinds)[slot.index % len(kinds)]
    job = kinds[kind](rng, words)
    return Task(
        id=slot.id,
        environment="agentgym/desktop-v1",
        prompt=job.prompt,
        parameters={"files": job.files},
        truth=job.truth,
        split=slot.split,
        tags=(slot.stratum, kind),
        difficulty=float(1 + ("files" in job.truth and len(job.truth["files"]))),
    )
