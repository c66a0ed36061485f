"""The task set `gui/screens-v1`: one sentence names something on a generated screen; point at it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from agentgym.messages import Message
from agentgym.task import Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from ..pointing import elsewhere, looks_and_points, points
from .layout import layout
from .words import KNOWN, UNSEEN, Words

NAME = "gui/screens-v1"
SIZES = {"train": 2_000, "validation": 200, "unseen_words": 200, "unseen_questions": 200}
QUESTIONS = ("text", "button", "icon", "field")
STRANGE = ("relation",)
ASKED = ("Point at the {}.", "Where is the {}?", "Click the {}.", "Find the {}.")


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build the task set; the seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_words` (nothing on the screen is written on a training screen) or
    `unseen_questions` (things told by the row they stand in, of which none is trained on).
    """

    draw = TaskGenerator(NAME, SIZES, seed, key=None).draw
    return TaskSet(
        NAME,
        {
            "train": draw("train", _task, KNOWN, QUESTIONS),
            "validation": draw("validation", _task, KNOWN, QUESTIONS),
            "held_out": [
                *draw("unseen_words", _task, UNSEEN, QUESTIONS),
                *draw("unseen_questions", _task, KNOWN, STRANGE),
            ],
        },
        oracle=oracle,
        imperfect_oracle=imperfect_oracle,
    )


def _task(rng: random.Random, slot: TaskSlot, words: Words, questions: Sequence[str]) -> Task | None:
    """A task, or None where the screen has nothing to ask that question about."""
    made = layout(rng, words)
    question = rng.choice(questions)
    found = made.of(question)
    if not found:
        return None
    target = rng.choice(found)
    left, top, right, bottom = target.box
    share = (right - left) * (bottom - top) / (made.screen["width"] * made.screen["height"])
    return Task(
        id=slot.id,
        environment="agentgym/ground-v1",
        prompt=rng.choice(ASKED).format(target.calls[question]),
        parameters={"screen": made.screen, "shown": 512},
        truth={"box": target.box},
        split=slot.split,
        tags=(slot.stratum, question),
        difficulty=round(1 - share, 4),
    )


def oracle(task: Task) -> list[Message]:
    """Looks around what is asked for, then points at its middle, or boxes it."""
    screen = task.parameters["screen"]
    return looks_and_points(task.truth["box"], (screen["width"], screen["height"]), boxed="icon" in task.tags)


def imperfect_oracle(task: Task) -> list[Message]:
    """Points at the middle of something else on the screen."""
    others = [widget["box"] for widget in task.parameters["screen"]["widgets"][1:]]
    away = elsewhere(others, task.truth["box"])
    return [points(away[seed_of(task.id) % len(away)])]
