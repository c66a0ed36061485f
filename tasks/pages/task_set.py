"""The task set `gui/pages-v1`: one sentence is about something on a photographed web page; point at it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from agentgym.errors import TaskError
from agentgym.messages import Message
from agentgym.task import Split, Task, TaskSet, seed_of

from ..pointing import elsewhere, looks_and_points, points
from .photographs import Photograph, photographs
from .questions import KINDS, STRANGE, Question, questions_of

NAME = "gui/pages-v1"
SIZES = {"train": 2_000, "validation": 200, "unseen_site": 200, "unseen_worlds": 200, "unseen_questions": 200}
SHOWN = 640


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build the task set; the seed chooses which tasks are in it. The photographs are always the same.

    Held-out tasks carry the tag `unseen_site` (a forum, of which no page is trained on), `unseen_worlds` (known sites
    about things and people whose names are not trained on) or `unseen_questions` (known sites; things told by the row
    they stand in, of which none is trained on). No photograph is in two strata.
    """
    return TaskSet(
        NAME,
        {
            "train": _drawn("train", "train", KINDS, seed),
            "validation": _drawn("validation", "validation", KINDS, seed),
            "held_out": [
                *_drawn("held_out", "unseen_site", KINDS, seed),
                *_drawn("held_out", "unseen_worlds", KINDS, seed),
                *_drawn("held_out", "unseen_questions", STRANGE, seed),
            ],
        },
        oracle=oracle,
        imperfect_oracle=imperfect_oracle,
    )


def _drawn(split: Split, stratum: str, kinds: Sequence[str], seed: int) -> list[Task]:
    """Distinct questions, every kind of the same weight as long as there are some left of it."""
    rng = random.Random(seed_of(NAME, split, stratum, seed))
    left: dict[str, list[tuple[Photograph, Question]]] = {kind: [] for kind in kinds}
    for page in photographs():
        if page.stratum == stratum:
            for question in questions_of(page):
                if question.kind in left:
                    left[question.kind].append((page, question))
    for some in left.values():
        rng.shuffle(some)
    if sum(map(len, left.values())) < SIZES[stratum]:
        raise TaskError(f"{NAME}: the photographs of {stratum} have no {SIZES[stratum]} questions {kinds}.")
    tasks: list[Task] = []
    while len(tasks) < SIZES[stratum]:
        page, question = left[rng.choice([kind for kind in kinds if left[kind]])].pop()
        tasks.append(_task(split, stratum, len(tasks), page, question, rng.choice(question.forms)))
    return tasks


def _task(split: Split, stratum: str, index: int, page: Photograph, question: Question, asked: str) -> Task:
    left, top, right, bottom = question.element.box
    share = (right - left) * (bottom - top) / (page.size[0] * page.size[1])
    return Task(
        id=f"{stratum}/{index:04d}",
        environment="agentgym/ground-v1",
        prompt=asked,
        parameters={"screen": {"asset": "gui/pages", "name": page.name}, "shown": SHOWN},
        truth={"box": list(question.element.box)},
        split=split,
        tags=(stratum, question.kind, page.site),
        difficulty=round(1 - share, 4),
    )


def oracle(task: Task) -> list[Message]:
    """Looks around what is asked for, then points at its middle, or boxes it."""
    return looks_and_points(task.truth["box"], _page(task).size, boxed="button" in task.tags)


def imperfect_oracle(task: Task) -> list[Message]:
    """Points at the middle of something else on the page."""
    away = elsewhere([element.box for element in _page(task).elements], task.truth["box"])
    return [points(away[seed_of(task.id) % len(away)])]


def _page(task: Task) -> Photograph:
    return photographs()[int(task.parameters["screen"]["name"])]
