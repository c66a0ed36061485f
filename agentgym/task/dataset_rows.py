"""Task sets as data sets of the library `datasets`, and any such data sets as task sets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym._imports import check_package
from agentgym.errors import TaskError
from agentgym.task.definition import Task

Columns = Mapping[str, str | Mapping[str, str]]
"""The column of each field of Task; for `parameters` and `truth`, optionally a mapping from keys to columns."""
JSON_FIELDS = ("messages", "parameters", "truth", "origin")
"""Fields whose values have varying types. A column has one type, so these fields are stored as JSON text."""
FILES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".arrow": "arrow"}
"""The name of the `load_dataset` reader for a single file, per extension."""
_SLICE = re.compile(r"(?P<name>[\w.-]+)(?:\[(?P<start>\d*):(?P<stop>\d*)\])?")


def tasks_from_dataset(
    source: Any, *, environment: str, columns: Columns | None, splits: Mapping[str, str] | None
) -> dict[str, list[Task]]:
    """Return the tasks per split. Arguments and errors: as `TaskSet.from_dataset`."""
    check_package("datasets", "data", "TaskSet.from_dataset")
    loaded = _loaded(source)
    title = str(source) if isinstance(source, str | Path) else "The data set"
    chosen = splits if splits is not None else {split: split for split in loaded}
    tasks: dict[str, list[Task]] = {}
    for split, text in chosen.items():
        match = _SLICE.fullmatch(text)
        if match is None or match["name"] not in loaded:
            raise TaskError(
                f"{title} has no split {text!r}. Its splits are: {', '.join(loaded)}. To take a part of one, write "
                "'test[:100]'."
            )
        rows = loaded[match["name"]]
        start, stop = int(match["start"] or 0), min(int(match["stop"] or len(rows)), len(rows))
        tasks[split] = [
            _task(rows[index], f"{title}, {match['name']} {index}", split, index, environment, columns)
            for index in range(start, stop)
        ]
    return tasks


def dataset_of(task_set: Mapping[str, Sequence[Task]], canary: str) -> Any:
    """Return a `datasets.DatasetDict` with every split that has tasks, each with the canary in its description."""
    check_package("datasets", "data", "TaskSet.push")
    from datasets import Dataset, DatasetDict, DatasetInfo, Features, List, Value

    text = Value("string")
    features = Features(
        {
            **dict.fromkeys(("id", "environment", "prompt", "split", *JSON_FIELDS), text),
            "difficulty": Value("float64"),
            **dict.fromkeys(("tags", "hints"), List(text)),
        }
    )
    info = DatasetInfo(description=canary, features=features)
    return DatasetDict(
        {
            split: Dataset.from_list([_row(task) for task in tasks], features=features, info=info)
            for split, tasks in task_set.items()
            if tasks
        }
    )


def is_folder(target: str | Path) -> bool:
    """Return whether a text names a local folder rather than a data set on a hub."""
    text = str(target)
    return isinstance(target, Path) or text.startswith((".", "/", "~")) or Path(text).exists() or text.count("/") != 1


def _loaded(source: Any) -> Mapping[str, Any]:
    """Return the data of a source per split. Raises: TaskError if the source cannot be read."""
    from datasets import Dataset, DatasetDict, load_dataset, load_from_disk

    if isinstance(source, str | Path):
        saved = (Path(source) / "dataset_dict.json", Path(source) / "dataset_info.json")
        is_saved = any(file.is_file() for file in saved)
        kind = FILES.get(Path(source).suffix.lower())
        if kind is not None and not Path(source).exists():
            raise TaskError(f"There is no file {source} in {Path.cwd()}. Give its path, or the name of a data set.")
        try:
            if kind is not None and Path(source).is_file():
                source = load_dataset(kind, data_files=str(source))
            else:
                source = load_from_disk(str(source)) if is_saved else load_dataset(str(source))
        except Exception as error:  # the library raises many types for a missing name or a broken file
            raise TaskError(f"The data set {source} cannot be loaded: {type(error).__name__}: {error}") from error
    if isinstance(source, Dataset):
        return {str(source.split or "train"): source}
    if not isinstance(source, DatasetDict):
        raise TaskError(f"{source!r:.200} is not a data set. Give a name, a folder, a Dataset or a DatasetDict.")
    return dict(source)


def _task(
    row: Mapping[str, Any], where: str, split: str, index: int, environment: str, columns: Columns | None
) -> Task:
    if columns is None:
        fields = {name: value for name, value in row.items() if value not in (None, [], "")}
        try:
            fields |= {name: json.loads(row[name]) for name in JSON_FIELDS if row.get(name)}
        except (TypeError, ValueError, RecursionError) as error:
            raise TaskError(f"{where} was not written by `push`, so its columns must be named: {error}") from error
    else:
        fields = {}
        for name, column in columns.items():
            entries = {"": column} if isinstance(column, str) else column
            if missing := [entry for entry in entries.values() if entry not in row]:
                raise TaskError(f"{where} has no column {missing[0]!r}. Its columns are: {', '.join(row)}.")
            values = _without_padding({key: row[entry] for key, entry in entries.items()})
            if not isinstance(column, str):
                fields[name] = values
            elif "" in values:
                fields[name] = values[""]
    given = {"id": f"{split}/{index:04d}", **fields, "split": split}
    given["id"] = str(given["id"])
    return Task.from_json({"environment": environment, **given}, where)


def _without_padding(value: Any) -> Any:
    """Return data without the keys whose value is None: Arrow gives every row the keys of all rows."""
    if isinstance(value, dict):
        return {key: _without_padding(each) for key, each in value.items() if each is not None}
    return [_without_padding(each) for each in value] if isinstance(value, list) else value


def _row(task: Task) -> dict[str, Any]:
    row = {"hints": [], "origin": None, **task.to_json()}
    values = {name: row[name] for name in JSON_FIELDS}
    is_default = {name: value is None or (not value and name != "truth") for name, value in values.items()}
    return row | {
        name: "" if is_default[name] else json.dumps(value, ensure_ascii=False) for name, value in values.items()
    }
