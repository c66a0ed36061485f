"""check_task_set passes a sound task set and names the fault of every broken one."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from breaches import breach
from shelf import shelf_tasks

from agentgym import TaskSet
from agentgym.errors import ConformanceError
from agentgym.testing import check_task_set
from agentgym.testing.hidden_truth import shown_truth


def sound_set(**changes) -> TaskSet:
    tasks = [replace(task, environment="agentgym/sql-v1", **changes) for task in shelf_tasks()]
    return TaskSet(
        "test/shelves-v1", {"train": tasks[:3], "held_out": [replace(t, split="held_out") for t in tasks[3:]]}
    )


def test_a_sound_task_set_passes():
    check_task_set(sound_set())


def test_a_prompt_that_shows_the_truth_is_caught():
    tasks = [replace(t, prompt=f"{t.prompt} Hint: {t.truth}") for t in sound_set()["train"]]
    with breach("3 of 3 prompts of 'train' show their truth"):
        check_task_set(TaskSet("test/shelves-v1", {"train": tasks}))


def test_a_truth_that_may_be_public_is_not_held_against_the_set():
    tasks = [replace(t, truth={"shown": t.prompt, "answer": t.truth}) for t in sound_set()["train"]]
    check_task_set(TaskSet("test/shelves-v1", {"train": tasks}), public=("shown",))


def test_what_a_web_task_asks_for_may_be_its_truth_and_an_answer_may_not():
    change, answer = {"effects": {"todo": {"2": "Call Bo"}}}, {"answer": "Call Bo"}
    tasks = [
        replace(task, environment="agentgym/web-v2", prompt=f"Add 'Call Bo' to list {task.id}.", truth=change)
        for task in sound_set()["train"]
    ]
    check_task_set(TaskSet("test/lists-v1", {"train": tasks}))
    with breach("show their truth"):
        check_task_set(TaskSet("test/lists-v1", {"train": [replace(task, truth=answer) for task in tasks]}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"truth": None}, "has no truth"),
        ({"environment": "nobody/knows-v1"}, "name the environment 'nobody/knows-v1'"),
        ({"parameters": {"when": {1, 2}}}, "cannot be written as JSON"),
        ({"parameters": {1: "number as key"}}, "not the same after JSON"),
        ({"difficulty": math.nan}, "difficulty"),
        ({"split": "validation"}, "says it is of 'validation', and stands in 'train'"),
    ],
)
def test_a_task_that_is_not_plain_is_caught(changes, says):
    tasks = [replace(t, **changes) for t in sound_set()["train"][:1]]
    with breach(says):
        check_task_set(TaskSet("test/shelves-v1", {"train": tasks}))


def test_an_empty_train_split_is_caught():
    with breach("train split is empty"):
        check_task_set(TaskSet("test/shelves-v1", {"held_out": sound_set()["held_out"]}))


class Shifting(list):
    """Tasks that change whenever they are read."""

    def __iter__(self):
        return (replace(task, difficulty=random.random()) for task in super().__iter__())


def test_tasks_that_change_when_read_are_caught():
    with breach("Two fingerprints of the same set differ"):
        check_task_set(TaskSet("test/shelves-v1", {"train": Shifting(sound_set()["train"])}))


class Unguarded(TaskSet):
    """Hands out its held-out split to trainers."""

    def __getitem__(self, split):
        return self._splits[split]


def test_a_set_that_lets_a_trainer_read_the_held_out_split_is_caught():
    with breach("A trainer can read the held-out split"):
        check_task_set(Unguarded("test/shelves-v1", {"train": sound_set()["train"]}))


@pytest.mark.parametrize(
    ("truth", "text", "expected"),
    [
        ("Oslo, Norway", "It is in oslo,  NORWAY.", True),
        (12, "12 boxes", False),  # too short to tell
        (1234, "the sum is 1234", True),
        (1234, "the sum is 12345", False),
        ({"answer": "Marseille", "sql": "SELECT city"}, "run SELECT city first", True),
        (["alpha", "beta"], "alpha alone", False),
        (["alpha", "beta"], "beta and alpha", True),
        (True, "true", False),
        (None, "none", False),
        ({}, "", False),
    ],
)
def test_a_truth_is_shown_if_one_whole_part_of_it_stands_in_the_text(truth, text, expected):
    assert (shown_truth(truth, text) is not None) is expected


def test_an_error_is_about_what_was_checked():
    alone = TaskSet("test/empty-v1", {"held_out": sound_set()["held_out"]})
    with pytest.raises(ConformanceError, match="task set 'test/empty-v1' breaks its contract in 1 place"):
        check_task_set(alone)
