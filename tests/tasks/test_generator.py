"""TaskGenerator: a random stream for each task, no duplicates, and an error where too few tasks exist."""

from __future__ import annotations

import pytest

from agentgym import Task
from agentgym.errors import TaskError
from agentgym.tasks.generator import TaskGenerator, TaskSlot

SIZES = {"train": 6, "validation": 2, "unseen_sums": 2}


def make_sum(rng, slot, highest):
    """Ask for a sum; return None for an odd number."""
    number = rng.randint(1, highest)
    if number % 2:
        return None
    return Task(slot.id, "agentgym/x-v1", f"What is {number} + 1?", split=slot.split, tags=slot.tags)


def generate(sizes=SIZES, highest=40, **options):
    generator = TaskGenerator("test/sums-v1", sizes, 0, **options)
    return {stratum: generator.draw(stratum, make_sum, highest) for stratum in sizes}


def test_no_two_tasks_of_any_strata_ask_the_same():
    prompts = [task.prompt for tasks in generate(highest=20).values() for task in tasks]
    assert len(set(prompts)) == len(prompts) == 10  # all ten sums that exist
    assert any("20" in prompt for prompt in prompts)


def test_a_task_is_in_the_split_of_its_stratum_and_only_held_out_tasks_are_tagged_with_it():
    tasks = generate()
    assert [task.id for task in tasks["train"]] == [f"train/{index:04d}" for index in range(6)]
    assert {(task.split, task.tags) for task in tasks["train"]} == {("train", ())}
    assert {(task.split, task.tags) for task in tasks["validation"]} == {("validation", ())}
    assert {(task.split, task.tags) for task in tasks["unseen_sums"]} == {("held_out", ("unseen_sums",))}


def test_a_smaller_set_holds_the_first_tasks_of_a_larger_one():
    larger = generate({"train": 12})["train"]
    assert larger[:6] == generate({"train": 6})["train"]


def test_another_seed_generates_other_tasks():
    first, second = (TaskGenerator("test/sums-v1", SIZES, seed).draw("train", make_sum, 10_000) for seed in (0, 1))
    assert not {task.prompt for task in first} & {task.prompt for task in second}


def test_the_key_decides_what_two_tasks_may_not_share():
    distinct = generate({"train": 4}, highest=40, key=lambda task: task.prompt[8], tries=10_000)["train"]
    assert len({task.prompt[8] for task in distinct}) == 4
    unchecked = generate({"train": 6}, highest=2, key=None)["train"]
    assert {task.prompt for task in unchecked} == {"What is 2 + 1?"}


def test_too_few_possible_tasks_is_an_error_that_names_the_requested_size():
    with pytest.raises(TaskError, match=r"no new task was found for train/0005 .* fewer than 6 tasks of train"):
        generate({"train": 6}, highest=10)


def test_a_slot_knows_its_split_from_its_stratum():
    splits = [TaskSlot(stratum, 0).split for stratum in ("train", "validation", "unseen")]
    assert splits == ["train", "validation", "held_out"]
