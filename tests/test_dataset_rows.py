"""Task sets that go through the library `datasets`, and data sets of others as tasks."""

from __future__ import annotations

import json

import pytest
from datasets import Dataset, DatasetDict, load_from_disk

from agentgym import TaskSet, load_task_set
from agentgym.errors import SplitLeakError, TaskError
from agentgym.task.task_set import canary_of

ROWS = [{"question": f"What is {n} + {n}?", "final": 2 * n, "level": "easy", "source": "sums"} for n in range(40)]
COLUMNS = {"prompt": "question", "truth": {"answer": "final"}, "parameters": {"level": "level"}}


@pytest.mark.parametrize("name", ["text/number-guess-v1", "sql/store-v1"])
def test_a_set_that_is_pushed_to_a_folder_comes_back_equal(name, tmp_path):
    task_set = load_task_set(name)
    small = TaskSet(name, {split: list(tasks)[:20] for split, tasks in task_set.items()})
    small.push(tmp_path / "pushed")
    read = TaskSet.from_dataset(tmp_path / "pushed", name=name)
    assert read.fingerprint() == small.fingerprint()
    description = load_from_disk(str(tmp_path / "pushed"))["held_out"].info.description
    assert description == canary_of(name)


def test_columns_of_others_become_fields():
    data = DatasetDict({"train": Dataset.from_list(ROWS[:30]), "test": Dataset.from_list(ROWS[30:])})
    splits = {"train": "train[5:25]", "validation": "train[25:]", "held_out": "test"}
    sums = TaskSet.from_dataset(data, name="me/sums-v1", environment="agentgym/x-v1", columns=COLUMNS, splits=splits)
    assert [len(sums[split]) for split in sums] == [20, 5, 10]
    first = sums["train"][0]
    assert (first.id, first.prompt, first.split) == ("train/0005", "What is 5 + 5?", "train")
    assert (first.truth, first.parameters, first.environment) == ({"answer": 10}, {"level": "easy"}, "agentgym/x-v1")


def test_a_folder_of_files_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "sums"
    folder.mkdir()
    for split, rows in (("train", ROWS[:30]), ("test", ROWS[30:])):
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    splits = {"train": "train", "held_out": "test"}
    sums = TaskSet.from_dataset(folder, name="me/sums-v1", environment="a/b-v1", columns=COLUMNS, splits=splits)
    assert [len(sums[split]) for split in sums] == [30, 0, 10]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_a_single_file_is_read(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    data, file = Dataset.from_list(ROWS), tmp_path / f"sums.{kind}"
    {"parquet": data.to_parquet, "csv": data.to_csv, "jsonl": data.to_json}[kind](file)
    sums = TaskSet.from_dataset(file, name="me/sums-v1", environment="a/b-v1", columns=COLUMNS)
    assert len(sums["train"]) == len(ROWS)


def test_what_is_wrong_with_a_data_set_is_named(tmp_path):
    data = Dataset.from_list(ROWS)
    with pytest.raises(TaskError, match=r"train 0 has no column 'answer'\. Its columns are: question, final"):
        TaskSet.from_dataset(data, name="a/b-v1", environment="a/b-v1", columns={"prompt": "answer"})
    with pytest.raises(TaskError, match=r"has no split 'test\[:3\]'\. Its splits are: train"):
        TaskSet.from_dataset(data, name="a/b-v1", columns=COLUMNS, splits={"held_out": "test[:3]"})
    with pytest.raises(TaskError, match="the field 'environment' is missing"):
        TaskSet.from_dataset(data, name="a/b-v1", columns=COLUMNS)
    with pytest.raises(TaskError, match="cannot be loaded"):
        TaskSet.from_dataset(tmp_path / "nothing", name="a/b-v1")
    with pytest.raises(TaskError, match="is not a data set"):
        TaskSet.from_dataset(3, name="a/b-v1")
    for truth in ("nine", ["nine"]):
        others = Dataset.from_list([{"id": "a", "environment": "a/b-v1", "prompt": "?", "truth": truth}])
        with pytest.raises(TaskError, match="train 0 was not written by `push`"):
            TaskSet.from_dataset(others, name="a/b-v1")
    both = {"train": "train[:20]", "held_out": "train[19:]"}
    with pytest.raises(SplitLeakError, match="asks the same"):
        TaskSet.from_dataset(data, name="a/b-v1", environment="a/b-v1", columns=COLUMNS, splits=both)


def test_nulls_that_arrow_pads_with_are_left_out():
    """Arrow gives every row of a column the keys that any row has."""
    rows = [
        {"question": "a", "given": {"x": 1}, "gold": [{"left": 1}, {"right": 2}], "more": None},
        {"question": "b", "given": {"y": {"z": None, "w": 0}}, "gold": [], "more": "m"},
    ]
    columns = {"prompt": "question", "parameters": "given", "truth": {"answer": "gold", "more": "more"}}
    task_set = TaskSet.from_dataset(Dataset.from_list(rows), name="t", environment="e", columns=columns)
    first, second = task_set["train"]
    assert (first.parameters, first.truth) == ({"x": 1}, {"answer": [{"left": 1}, {"right": 2}]})
    assert (second.parameters, second.truth) == ({"y": {"w": 0}}, {"answer": [], "more": "m"})


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "json"])
def test_one_file_is_read_by_its_suffix(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    data, path = Dataset.from_list([{"q": "one", "a": "1"}, {"q": "two", "a": "2"}]), tmp_path / f"file.{suffix}"
    {"parquet": data.to_parquet, "csv": data.to_csv}.get(suffix, data.to_json)(str(path))
    task_set = TaskSet.from_dataset(
        str(path), name="t", environment="e", columns={"prompt": "q"}, splits={"held_out": "train"}
    )
    assert [task.prompt for task in task_set["held_out"]] == ["one", "two"]


@pytest.mark.parametrize("name", ["missing.parquet", "data/missing.jsonl", "MISSING.CSV"])
def test_a_file_that_is_missing_is_not_looked_for_on_a_hub(name):
    with pytest.raises(TaskError, match=f"There is no file {name} in "):
        TaskSet.from_dataset(name, name="x/y-v1", environment="agentgym/sql-v1", columns={"prompt": "q"})
