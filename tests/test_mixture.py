"""Several task sets as one."""

from __future__ import annotations

from collections import Counter

import pytest

from agentgym import Task, TaskSet
from agentgym.errors import SplitLeakError, TaskError
from agentgym.messages import Message
from agentgym.task.mixture import by_weight, mixed


def task_set(name: str, count: int = 3, *, oracle: bool = True, ask: str = "") -> TaskSet:
    """So many tasks of each split, with the same ids in every set."""
    splits = {
        split: [Task(f"{split}{index}", f"test/{name}-v1", f"{ask or name} {split} {index}") for index in range(count)]
        for split in ("train", "validation", "held_out")
    }
    return TaskSet(name, splits, oracle=(lambda task: (name, task.id, task.tags)) if oracle else None)


def test_a_mixture_has_every_task_once_under_an_id_of_its_own_with_the_set_that_it_comes_from():
    mixture = mixed({"one": task_set("one"), "two": task_set("two", 2)})
    assert [task.id for task in mixture["train"]] == ["train0", "train1", "train2", "two:train0", "two:train1"]
    assert [task.source for task in mixture["held_out"]] == ["one"] * 3 + ["two"] * 2
    assert Task("a", "test/one-v1", "?").source is None


def test_each_set_is_played_by_its_own_oracle_which_sees_the_task_as_the_set_has_it():
    mixture = mixed({"one": task_set("one"), "two": task_set("two")})
    assert [mixture.oracle(mixture["train"][index]) for index in (0, 3)] == [
        ("one", "train0", ()),
        ("two", "train0", ()),
    ]
    assert mixture.imperfect_oracle is None
    assert mixed({"one": task_set("one"), "two": task_set("two", oracle=False)}).oracle is None


def test_what_one_set_trains_on_may_not_be_measured_in_another():
    held_out = TaskSet("two", {"train": [Task("a", "x", "?")], "held_out": [Task("b", "test/one-v1", "one train 0")]})
    with pytest.raises(SplitLeakError, match="'b' in 'held_out' asks the same as 'train0' in 'train'"):
        mixed({"one": task_set("one"), "two": held_out})


def test_a_set_without_training_tasks_is_named():
    with pytest.raises(TaskError, match="The task set two has no training tasks"):
        mixed({"one": task_set("one"), "two": TaskSet("two", {"held_out": [Task("b", "test/one-v1", "?")]})})


def test_tasks_are_chosen_by_weight_and_what_a_small_set_lacks_is_taken_from_the_others():
    mixture = mixed({"one": task_set("one", 300), "two": task_set("two", 300), "three": task_set("three", 4)})
    weights = {"one": 1.0, "two": 3.0, "three": 1.0}
    chosen = by_weight(mixture["train"], 200, weights, seed=1)
    shares = Counter(task.source for task in chosen)
    assert len({task.id for task in chosen}) == 200
    assert shares["three"] == 4
    assert 2 < shares["two"] / shares["one"] < 4.5
    assert (
        by_weight(mixture["train"], 200, weights, seed=1) == chosen != by_weight(mixture["train"], 200, weights, seed=2)
    )
    assert len(by_weight(mixture["train"], 9999, {"one": 1.0}, seed=1)) == 300


def test_an_answer_is_asked_of_the_set_of_its_task():
    def with_answer(name: str) -> TaskSet:
        created = task_set(name)
        created.answer = lambda task: Message("assistant", f"{name} {task.id}")
        return created

    mixture = mixed({"one": with_answer("one"), "two": with_answer("two")})
    assert mixture.answer(mixture["train"][3]).text == "two train0"
