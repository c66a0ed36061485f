"""The task set `gui/office-v1`: small office jobs on a desktop, judged by the content of the saved files."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

from agentgym import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from .jobs import KINDS, UNSEEN_KINDS, UNSEEN_PROGRAM, Cabinet, Maker
from .oracle import imperfect_oracle, oracle
from .words import KNOWN, UNSEEN, OfficeVocabulary

NAME = "gui/office-v1"
SIZES = {"train": 600, "validation": 60, "unseen_words": 60, "unseen_jobs": 40, "unseen_program": 20}
PROGRAMS: dict[str, dict[str, Any]] = {
    "sheet": {"command": ["gnumeric", "--no-splash"], "package": "gnumeric", "window": "- Gnumeric", "opens": True},
    "writer": {"command": ["abiword"], "package": "abiword", "window": "Abiword", "opens": True},
    "paint": {"command": ["mtpaint"], "package": "mtpaint", "window": "^mtPaint", "opens": True},
    "archiver": {"command": ["xarchiver"], "package": "xarchiver", "window": "xarchiver", "opens": True},
    "editor": {"command": ["mousepad", "--disable-server"], "package": "mousepad", "window": "Mousepad", "opens": True},
    "files": {"command": ["pcmanfm"], "package": "pcmanfm", "window": "Pcmanfm", "opens": True},
    "calculator": {"command": ["galculator"], "package": "galculator", "window": "Galculator"},
}
VIEWER = {"viewer": {"command": ["gpicview"], "package": "gpicview", "window": "Gpicview", "opens": True}}
"""The program that only tasks of the stratum `unseen_program` offer."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Small office jobs in real programs, judged by the files that are saved.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_words` (folders, files, things and sentences that no training task has),
    `unseen_jobs` (kinds of job that no training task has) or `unseen_program` (a picture viewer, which no other task
    offers).
    """
    vocabularies_and_kinds = {
        "unseen_words": (UNSEEN, KINDS),
        "unseen_jobs": (UNSEEN, UNSEEN_KINDS),
        "unseen_program": (UNSEEN, UNSEEN_PROGRAM),
        "validation": (KNOWN, KINDS),
        "train": (KNOWN, KINDS),
    }
    splits = TaskGenerator(NAME, SIZES, seed).splits(_task, vocabularies_and_kinds)
    return TaskSet(NAME, splits, oracle=oracle, imperfect_oracle=imperfect_oracle)


def _task(rng: random.Random, slot: TaskSlot, words: OfficeVocabulary, kinds: Mapping[str, Maker]) -> Task:
    """Make one task. Kinds alternate with the slot's index."""
    kind = sorted(kinds)[slot.index % len(kinds)]
    job = kinds[kind](Cabinet(rng, words))
    return Task(
        id=slot.id,
        environment="agentgym/desktop-v2",
        prompt=job.prompt,
        parameters={"files": job.files, "programs": VIEWER | PROGRAMS if kinds is UNSEEN_PROGRAM else PROGRAMS},
        truth={"files": job.expected},
        split=slot.split,
        tags=(slot.stratum, kind),
        difficulty=float(job.programs),
    )
