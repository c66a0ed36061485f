"""Drawn tasks: each from numbers of its own, none like another, and an error where there are too few."""

from __future__ import annotations

import pytest

from agentgym.errors import TaskError
from agentgym.task import Task
from agentgym.tasks.lottery import Lottery, Place

SIZES = {"train": 6, "validation": 2, "unseen_sums": 2}


def added(rng, place, most):
    """A sum; none for an odd one."""
    number = rng.randint(1, most)
    if number % 2:
        return None
    return Task(place.id, "agentgym/x-v1", f"What is {number} + 1?", split=place.split, tags=place.tags)


def drawn(sizes=SIZES, most=40, **options):
    draw = Lottery("test/sums-v1", sizes, 0, **options).draw
    return {stratum: draw(stratum, added, most) for stratum in sizes}


def test_no_two_tasks_ask_the_same_in_any_stratum():
    prompts = [task.prompt for tasks in drawn(most=20).values() for task in tasks]
    assert len(set(prompts)) == len(prompts) == 10  # all of the ten there are
    assert any("20" in prompt for prompt in prompts)


def test_a_task_stands_in_the_split_of_its_stratum_and_only_a_held_out_one_is_tagged():
    tasks = drawn()
    assert [task.id for task in tasks["train"]] == [f"train/{index:04d}" for index in range(6)]
    assert {(task.split, task.tags) for task in tasks["train"]} == {("train", ())}
    assert {(task.split, task.tags) for task in tasks["validation"]} == {("validation", ())}
    assert {(task.split, task.tags) for task in tasks["unseen_sums"]} == {("held_out", ("unseen_sums",))}


def test_sizes_change_alone():
    """The tasks of a smaller set are the first of a larger one."""
    more = drawn({"train": 12})["train"]
    assert more[:6] == drawn({"train": 6})["train"]


def test_another_seed_draws_other_tasks():
    one, other = (Lottery("test/sums-v1", SIZES, seed).draw("train", added, 10_000) for seed in (0, 1))
    assert not {task.prompt for task in one} & {task.prompt for task in other}


def test_what_two_tasks_may_not_share_is_up_to_the_set():
    tens = drawn({"train": 4}, most=40, key=lambda task: task.prompt[8], tries=10_000)["train"]
    assert len({task.prompt[8] for task in tens}) == 4
    alike = drawn({"train": 6}, most=2, key=None)["train"]
    assert {task.prompt for task in alike} == {"What is 2 + 1?"}


def test_too_few_to_draw_is_an_error_that_says_how_many_were_asked_for():
    with pytest.raises(TaskError, match=r"no unused task is left for train/0005 .* fewer than 6 of train"):
        drawn({"train": 6}, most=10)


def test_a_place_is_known_by_its_stratum():
    assert [Place(stratum, 0).split for stratum in ("train", "validation", "unseen")] == [
        "train", "validation", "held_out",
    ]  # fmt: skip
