"""The task set `gui/screens-v1`: point at the element of a generated screen that a sentence describes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from agentgym import Message, Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from ..pointing import elsewhere, looks_and_points, points
from .layout import layout
from .words import KNOWN, UNSEEN, ScreenVocabulary

NAME = "gui/screens-v1"
SIZES = {"train": 2_000, "validation": 200, "unseen_words": 200, "unseen_questions": 200}
QUESTIONS = ("text", "button", "icon", "field")
UNSEEN_QUESTIONS = ("relation",)
PROMPTS = ("Point at the {}.", "Where is the {}?", "Click the {}.", "Find the {}.")


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Elements to be pointed at in drawn windows of invented programs.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_words` (no text of the screen is on a training screen) or `unseen_questions`
    (elements described by their row, which no training task asks for).
    """
    draw = TaskGenerator(NAME, SIZES, seed, key=None).draw
    return TaskSet(
        NAME,
        {
            "train": draw("train", _task, KNOWN, QUESTIONS),
            "validation": draw("validation", _task, KNOWN, QUESTIONS),
            "held_out": [
                *draw("unseen_words", _task, UNSEEN, QUESTIONS),
                *draw("unseen_questions", _task, KNOWN, UNSEEN_QUESTIONS),
            ],
        },
        oracle=oracle,
        imperfect_oracle=imperfect_oracle,
    )


def _task(rng: random.Random, slot: TaskSlot, words: ScreenVocabulary, questions: Sequence[str]) -> Task | None:
    """Make the task; return None if the screen has no element for the kind of question."""
    window = layout(rng, words)
    question = rng.choice(questions)
    targets = window.targets_of(question)
    if not targets:
        return None
    target = rng.choice(targets)
    left, top, right, bottom = target.box
    share = (right - left) * (bottom - top) / (window.screen["width"] * window.screen["height"])
    return Task(
        id=slot.id,
        environment="agentgym/ground-v1",
        prompt=rng.choice(PROMPTS).format(target.descriptions[question]),
        parameters={"screen": window.screen, "shown": 512},
        truth={"box": target.box},
        split=slot.split,
        tags=(slot.stratum, question),
        difficulty=round(1 - share, 4),
    )


def oracle(task: Task) -> list[Message]:
    """Zoom in on the element, then point at its middle, or box it."""
    screen = task.parameters["screen"]
    return looks_and_points(task.truth["box"], (screen["width"], screen["height"]), boxed="icon" in task.tags)


def imperfect_oracle(task: Task) -> list[Message]:
    """Point at the middle of another element of the screen."""
    boxes = [widget["box"] for widget in task.parameters["screen"]["widgets"][1:]]
    wrong_boxes = elsewhere(boxes, task.truth["box"])
    return [points(wrong_boxes[seed_of(task.id) % len(wrong_boxes)])]
