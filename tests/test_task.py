"""Tasks and task sets: what a broken file says, how splits are kept apart, and who may read which."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import Message, Task, TaskSet, seed_of
from agentgym.errors import HeldOutError, SplitLeakError, TaskError
from agentgym.task import Origin

GOOD = {"id": "a", "environment": "acme/sql-v1", "prompt": "How many?", "truth": 3}


def file_of(tmp_path, *lines: object) -> str:
    path = tmp_path / "tasks.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(path)


def a_task(name: str, prompt: str | None = None, **fields: object) -> Task:
    return Task(name, "acme/sql-v1", prompt or f"Question {name}?", **fields)


def test_a_file_is_read_line_by_line_into_its_splits(tmp_path):
    path = file_of(tmp_path, GOOD, "", {**GOOD, "id": "b", "prompt": "Why?", "split": "held_out"})
    task_set = TaskSet.from_jsonl(path)
    assert task_set.name == "tasks"
    assert [t.id for t in task_set["train"]] == ["a"]
    assert [t.id for t in task_set["held_out"]] == ["b"]
    assert task_set["validation"] == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{not json", "line 2: not valid JSON"),
        ('{"id": "b", "difficulty": NaN}', "line 2: not valid JSON: NaN"),
        ('{"id": "b", "truth": ' + "9" * 5_000 + "}", "line 2: not valid JSON"),
        ("[" * 100_000, "line 2: not valid JSON"),
        ("[1]", "line 2: expected a JSON object, found list"),
        ({**GOOD, "id": ""}, "line 2: the field 'id' is missing or empty"),
        ({"id": "b", "prompt": "x"}, "line 2: the field 'environment' is missing"),
        ({**GOOD, "id": 7}, "line 2: the field 'id' is 7, which has the wrong type"),
        (
            {**GOOD, "id": "b", "promt": "x"},
            "line 2: unknown field ['promt']. The fields of a task are: id, environment, prompt",
        ),
        ({**GOOD, "id": "b", "split": "test"}, "line 2: there is no split 'test'. Choose one of train"),
        ({**GOOD, "id": "b", "prompt": ""}, "line 2: a task needs a prompt or messages"),
        ({**GOOD, "id": "b", "difficulty": True}, "line 2: the field 'difficulty' is True"),
        ({**GOOD, "id": "b", "parameters": []}, "line 2: the field 'parameters' is []"),
        ({**GOOD, "id": "b", "tags": [1]}, "line 2: the field 'tags' is [1]"),
        ({**GOOD, "id": "b", "messages": [{"role": "tool"}]}, "line 2: messages[0] has the role tool, but no `name`"),
        (
            {**GOOD, "id": "b", "messages": [{"role": "assistant", "calls": [{"name": "look", "arguments": 1}]}]},
            "line 2: messages[0] has a call of 'look' whose arguments must be an object, not 1",
        ),
        ({**GOOD, "id": "b", "messages": ["hi"]}, "line 2: messages[0] needs a role"),
        (GOOD, "line 2: the id 'a' is already used in line 1"),
    ],
)
def test_a_broken_line_is_named_with_its_file_line_and_field(tmp_path, line, says):
    path = file_of(tmp_path, GOOD, line)
    with pytest.raises(TaskError) as caught:
        TaskSet.from_jsonl(path)
    assert str(caught.value).startswith(f"{path}, {says}")


def test_a_file_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(TaskError, match=r"Cannot read the task file .*missing\.jsonl: No such file"):
        TaskSet.from_jsonl(tmp_path / "missing.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(TaskError, match="has no tasks"):
        TaskSet.from_jsonl(tmp_path / "empty.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}')
    with pytest.raises(TaskError, match="is not UTF-8"):
        TaskSet.from_jsonl(tmp_path / "latin.jsonl")


def test_an_id_in_two_splits_is_a_leak():
    with pytest.raises(SplitLeakError, match="task 'a' is in both 'train' and 'held_out'"):
        TaskSet("s", {"train": [a_task("a")], "held_out": [a_task("a", "Another one?")]})


def test_an_id_twice_in_a_split_is_refused_with_the_id():
    with pytest.raises(TaskError, match="the id 'a' occurs twice in 'train'"):
        TaskSet("s", {"train": [a_task("a"), a_task("b"), a_task("a")]})


@pytest.mark.parametrize(
    "twin",
    [
        a_task("b", "How  many\norders? "),
        a_task("b", "HOW MANY ORDERS?"),
        Task("b", "acme/sql-v1", messages=(Message("user", "how many orders?"),)),
        a_task("b", "How many orders?", truth=99, difficulty=3.0, tags=("other",)),
    ],
)
def test_the_same_question_in_other_letters_is_a_leak(twin):
    with pytest.raises(SplitLeakError, match="'b' in 'held_out' asks the same as 'a' in 'train'"):
        TaskSet("s", {"train": [a_task("a", "How many orders?")], "held_out": [twin]})


def test_the_same_words_about_other_parameters_are_no_leak():
    first, second = a_task("a", "How many?", parameters={"shop": 1}), a_task("b", "How many?", parameters={"shop": 2})
    assert len(TaskSet("s", {"train": [first], "held_out": [second]})["held_out"]) == 1


def test_a_leak_in_a_file_is_refused(tmp_path):
    path = file_of(tmp_path, GOOD, {**GOOD, "id": "b", "prompt": "how MANY?", "split": "validation"})
    with pytest.raises(SplitLeakError, match="'b' in 'validation' asks the same as 'a' in 'train'"):
        TaskSet.from_jsonl(path)


def generated(**fields: object) -> Task:
    return a_task("m", origin=Origin("variants", "a", "train-000003/a#1"), **fields)


@pytest.mark.parametrize("split", ["validation", "held_out"])
def test_what_a_training_has_made_is_only_trained_on(split, tmp_path):
    assert TaskSet("acme/s", {"train": [generated()]})["train"][0].origin.parent == "a"
    for tasks in ({split: [generated()]}, {"train": [generated(split=split)]}):
        with pytest.raises(SplitLeakError, match=r"'m' is in .* a training made it \(by 'variants', from 'a'\)"):
            TaskSet("acme/s", tasks)
    row = generated().to_json() | {"split": split}
    with pytest.raises(SplitLeakError, match="Such tasks may only be trained on"):
        TaskSet.from_jsonl(file_of(tmp_path, row))


def test_an_origin_survives_json_and_stays_out_of_the_environment_and_of_fingerprints():
    assert Task.from_json(json.loads(json.dumps(generated().to_json()))) == generated()
    assert "origin" not in a_task("a").to_json(), "fingerprints of sets without any stay as they were"
    assert generated().public().origin is None
    for origin in ({}, {"generator": ""}, {"generator": "x", "other": "y"}, {"generator": "x", "parent": 3}):
        with pytest.raises(TaskError, match="the field 'origin' is"):
            Task.from_json({**GOOD, "origin": origin})


def test_an_unknown_split_is_refused():
    with pytest.raises(TaskError, match=r"unknown split \['test'\]"):
        TaskSet("s", {"test": []})
    with pytest.raises(TaskError, match=r"has no split 'test'. The splits are: train, validation, held_out"):
        TaskSet("s", {})["test"]


async def test_a_trainer_cannot_read_the_held_out_split():
    task_set = TaskSet("s", {"train": [a_task("a")], "held_out": [a_task("b")]})
    with TaskSet.training_only():
        assert task_set["train"]
        with pytest.raises(HeldOutError, match=r"held-out split of s.*'validation' to choose"):
            task_set["held_out"]
        with pytest.raises(HeldOutError):
            dict(task_set)
        with pytest.raises(PermissionError):  # the builtin it refines
            await asyncio.create_task(_read(task_set))
        with TaskSet.training_only():
            pass
        with pytest.raises(HeldOutError):
            task_set["held_out"]
        assert task_set.fingerprint()  # the record of a run names it
    assert task_set["held_out"]


async def _read(task_set: TaskSet):
    return task_set["held_out"]


def test_a_task_is_frozen_and_its_public_form_has_no_truth():
    task = a_task("a", truth="42")
    with pytest.raises(FrozenInstanceError):
        task.truth = "43"
    assert task.public().truth is None
    assert task.public() == replace(task, truth=None)
    assert task.truth == "42"


def test_the_opening_is_the_messages_or_else_the_prompt():
    assert a_task("a", "Why?").opening() == [Message("user", "Why?")]
    messages = (Message("system", "Be brief."), Message("user", "Why?"))
    assert Task("a", "acme/sql-v1", messages=messages).opening() == list(messages)


plain = st.none() | st.booleans() | st.integers() | st.text()


@settings(max_examples=40, deadline=None)
@given(
    truth=st.recursive(plain, lambda x: st.lists(x) | st.dictionaries(st.text(), x)),
    difficulty=st.floats(-1e9, 1e9),
    tags=st.lists(st.text(), max_size=3),
)
def test_a_task_survives_json(truth, difficulty, tags):
    task = a_task("a", truth=truth, difficulty=difficulty, tags=tuple(tags), parameters={"k": truth})
    assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task


def test_a_set_written_and_read_is_the_same_set(tmp_path):
    task_set = TaskSet(
        "tasks", {"train": [a_task("ü", truth=[1, {"x": "☂"}])], "validation": [a_task("b", split="validation")]}
    )
    task_set.to_jsonl(tmp_path / "tasks.jsonl")
    assert TaskSet.from_jsonl(tmp_path / "tasks.jsonl").fingerprint() == task_set.fingerprint()
    assert os.listdir(tmp_path) == ["tasks.jsonl"]


def test_a_set_that_cannot_be_written_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text("old")
    with pytest.raises(TypeError):
        TaskSet("s", {"train": [a_task("a", truth={1, 2})]}).to_jsonl(path)
    assert path.read_text() == "old"


def test_the_fingerprint_sees_every_field_of_every_task():
    base = a_task("a", truth=1)
    prints = {TaskSet("s", {"train": [base]}).fingerprint(), TaskSet("s", {"validation": [base]}).fingerprint()}
    changes = {"id": "b", "prompt": "x", "truth": 2, "tags": ("t",), "difficulty": 1.0, "parameters": {"a": 1}}
    for field, value in changes.items():
        prints.add(TaskSet("s", {"train": [replace(base, **{field: value})]}).fingerprint())
    assert len(prints) == 7  # moving a task unchanged to another split is told by its `split` field alone
    assert TaskSet("other name", {"train": [base]}).fingerprint() in prints


def test_the_fingerprint_is_the_same_in_another_process():
    code = (
        "from agentgym import Task, TaskSet; "
        "print(TaskSet('s', {'train': [Task('a', 'acme/sql-v1', 'Why?', parameters={'b': 1, 'a': 2})]}).fingerprint())"
    )
    here = TaskSet("s", {"train": [Task("a", "acme/sql-v1", "Why?", parameters={"a": 2, "b": 1})]}).fingerprint()
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.strip() == here


def test_seeds_of_neighbours_are_unlike_and_always_the_same():
    assert seed_of("s", "train", 0, 1) == 9155335502257261589  # a pin: another value would make other task sets
    splits, indices = ("train", "held_out"), range(50)
    seeds = {seed_of("s", split, seed, index) for split in splits for seed in (0, 1) for index in indices}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of("a", "bc") != seed_of("ab", "c")


def test_the_copies_of_a_task_keep_every_other_field():
    fields: dict[str, object] = {f.name: f.name for f in dataclasses.fields(Task)}
    task = Task(**{**fields, "parameters": {"a": [1]}, "truth": {"b": 2}, "hints": ("h",)})
    assert task.copy() == task
    assert task.copy().parameters["a"] is not task.parameters["a"]
    assert task.public() == replace(task, truth=None, hints=(), origin=None)


def test_a_task_of_another_class_is_copied_with_its_own_fields():
    @dataclasses.dataclass(frozen=True)
    class Dated(Task):
        year: int = 0

    task = Dated("a", "acme/sql-v1", truth=[1], year=1999)
    assert task.copy() == task
    assert task.public() == Dated("a", "acme/sql-v1", year=1999)
