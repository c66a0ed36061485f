"""The task set `gui/screens-v1`: one sentence names something on a generated screen; point at it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from agentgym.errors import TaskError
from agentgym.messages import Message
from agentgym.task import Split, Task, TaskSet, seed_of

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

    def drawn(split: Split, stratum: str, words: Words, questions: Sequence[str]) -> list[Task]:
        return [_task(split, stratum, words, questions, seed, index) for index in range(SIZES[stratum])]

    return TaskSet(
        NAME,
        {
            "train": drawn("train", "train", KNOWN, QUESTIONS),
            "validation": drawn("validation", "validation", KNOWN, QUESTIONS),
            "held_out": [
                *drawn("held_out", "unseen_words", UNSEEN, QUESTIONS),
                *drawn("held_out", "unseen_questions", KNOWN, STRANGE),
            ],
        },
        oracle=oracle,
        novice=novice,
    )


def _task(split: Split, stratum: str, words: Words, questions: Sequence[str], seed: int, index: int) -> Task:
    """One task from a stream of random numbers of its own."""
    rng = random.Random(seed_of(NAME, split, stratum, seed, index))
    for _ in range(20):
        made = layout(rng, words)
        question = rng.choice(questions)
        if found := made.of(question):
            target = rng.choice(found)
            left, top, right, bottom = target.box
            share = (right - left) * (bottom - top) / (made.screen["width"] * made.screen["height"])
            return Task(
                id=f"{stratum}/{index:04d}",
                environment="agentgym/ground-v1",
                prompt=rng.choice(ASKED).format(target.calls[question]),
                parameters={"screen": made.screen, "shown": 512},
                truth={"box": target.box},
                split=split,
                tags=(stratum, question),
                difficulty=round(1 - share, 4),
            )
    raise TaskError(f"{NAME}: no screen of {stratum} {index} has anything to ask {questions} about.")


def oracle(task: Task) -> list[Message]:
    """Looks around what is asked for, then points at its middle, or boxes it."""
    screen = task.parameters["screen"]
    return looks_and_points(task.truth["box"], (screen["width"], screen["height"]), boxed="icon" in task.tags)


def novice(task: Task) -> list[Message]:
    """Points at the middle of something else on the screen."""
    others = [widget["box"] for widget in task.parameters["screen"]["widgets"][1:]]
    away = elsewhere(others, task.truth["box"])
    return [points(away[seed_of(task.id) % len(away)])]
