"""The task set `gui/pages-v1`: point at the element of a photographed web page that a sentence describes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from agentgym import Message, Split, Task, TaskError, TaskSet, seed_of

from ..pointing import elsewhere, looks_and_points, points
from .photographs import Photograph, photographs
from .questions import KINDS, UNSEEN_KINDS, Question, questions_of

NAME = "gui/pages-v1"
SIZES = {"train": 2_000, "validation": 200, "unseen_site": 200, "unseen_worlds": 200, "unseen_questions": 200}
SHOWN_WIDTH = 640


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Elements to be pointed at on photographs of real web pages.

    The seed chooses which tasks are in it; the photographs are always the same.

    Held-out tasks carry one of three tags: `unseen_site` (a forum, which no training task has), `unseen_worlds` (sites
    of the training tasks, with names of things and people that these do not have) or `unseen_questions` (sites of the
    training tasks; elements described by their row, which no training task asks for). No photograph is in two strata.
    """
    return TaskSet(
        NAME,
        {
            "train": _generate("train", "train", KINDS, seed),
            "validation": _generate("validation", "validation", KINDS, seed),
            "held_out": [
                *_generate("held_out", "unseen_site", KINDS, seed),
                *_generate("held_out", "unseen_worlds", KINDS, seed),
                *_generate("held_out", "unseen_questions", UNSEEN_KINDS, seed),
            ],
        },
        oracle=oracle,
        imperfect_oracle=imperfect_oracle,
    )


def _generate(split: Split, stratum: str, kinds: Sequence[str], seed: int) -> list[Task]:
    """Draw questions without repetition. All kinds that still have questions are equally likely."""
    rng = random.Random(seed_of(NAME, split, stratum, seed))
    remaining: dict[str, list[tuple[Photograph, Question]]] = {kind: [] for kind in kinds}
    for page in photographs():
        if page.stratum == stratum:
            for question in questions_of(page):
                if question.kind in remaining:
                    remaining[question.kind].append((page, question))
    for pairs in remaining.values():
        rng.shuffle(pairs)
    if sum(map(len, remaining.values())) < SIZES[stratum]:
        raise TaskError(
            f"{NAME}: the photographs of {stratum} do not give {SIZES[stratum]} questions {kinds}. Ask for fewer."
        )
    tasks: list[Task] = []
    while len(tasks) < SIZES[stratum]:
        page, question = remaining[rng.choice([kind for kind in kinds if remaining[kind]])].pop()
        tasks.append(_task(split, stratum, len(tasks), page, question, rng.choice(question.forms)))
    return tasks


def _task(split: Split, stratum: str, index: int, page: Photograph, question: Question, prompt: str) -> Task:
    left, top, right, bottom = question.element.box
    share = (right - left) * (bottom - top) / (page.size[0] * page.size[1])
    return Task(
        id=f"{stratum}/{index:04d}",
        environment="agentgym/ground-v1",
        prompt=prompt,
        parameters={"screen": {"asset": "gui/pages", "name": page.name}, "shown": SHOWN_WIDTH},
        truth={"box": list(question.element.box)},
        split=split,
        tags=(stratum, question.kind, page.site),
        difficulty=round(1 - share, 4),
    )


def oracle(task: Task) -> list[Message]:
    """Zoom in on the element, then point at its middle, or box it."""
    return looks_and_points(task.truth["box"], _page(task).size, boxed="button" in task.tags)


def imperfect_oracle(task: Task) -> list[Message]:
    """Point at the middle of another element of the page."""
    wrong_boxes = elsewhere([element.box for element in _page(task).elements], task.truth["box"])
    return [points(wrong_boxes[seed_of(task.id) % len(wrong_boxes)])]


def _page(task: Task) -> Photograph:
    return photographs()[int(task.parameters["screen"]["name"])]
