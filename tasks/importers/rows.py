"""Read questions and answers from your own table or JSON file; each row is a task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet, load
from agentgym.reward import comparison

from .items import field, read_rows, text_of


def load_rows(
    path: str | Path,
    *,
    prompt: str = "prompt",
    answer: str = "answer",
    database: str = "",
    environment: str = "",
    split: Split = "train",
    name: str = "",
) -> TaskSet:
    """A task for each row of a .jsonl, .json, .csv, .tsv, .parquet, .arrow or .feather file.

    The answer becomes `truth["answer"]`, by which `answer_match` and `sql` judge; a list means several right answers.
    An optional column `id` names the tasks, and an optional column `split` their splits.

    Args:
        prompt, answer: the columns of the question and of its answer.
        database: the SQLite file for all rows, or the column with each row's file, relative to the rows' file. The
            environment is then agentgym/sql-v1.
        environment: the tasks' environment; needed if there is no `database`.
        split: the split of rows without a column `split`.
        name: the name of the task set; by default the file's name.
    Raises: TaskError naming the row and the column.
    """
    path = Path(path)
    if not (environment or database):
        raise TaskError(
            f"{path}: the environment of these rows is missing. Give --database FILE, or --option environment=ID."
        )
    splits: dict[str, list[Task]] = {"train": [], "validation": [], "held_out": []}
    for number, row in enumerate(read_rows(path)):
        where = f"{path}, row {number + 1}"
        task_split = str(row.get("split") or split)
        if task_split not in splits:
            raise TaskError(f"{where}: there is no split {task_split!r}. Choose one of {', '.join(splits)}.")
        parameters = {"database": _database(path, row, database, where), "show_schema": True} if database else {}
        task = Task(
            str(row.get("id") or f"{path.stem}/{number:05d}"),
            environment or "agentgym/sql-v1",
            text_of(row, where, prompt),
            parameters=parameters,
            truth={"answer": _answer(row, where, answer)},
            split=task_split,  # type: ignore[arg-type]
        )
        splits[task_split].append(task)
    takes_answers = "answer" in load("environments", environment or "agentgym/sql-v1").tools
    return TaskSet(name or path.stem, splits, answer=_right_answer if takes_answers else None)


def _right_answer(task: Task) -> Message:
    """Return the message that gives the right answer, the first of several."""
    answer = task.truth["answer"]
    text = str(answer[0] if isinstance(answer, list) else answer)
    return Message("assistant", "", (Call("answer", {"text": text}),))


def _answer(row: Mapping[str, Any], where: str, column: str) -> Any:
    value = field(row, where, column)
    if isinstance(value, list):
        return [_plain(each, where) for each in value if each is not None] or _plain(None, where)
    return _plain(value, where)


def _plain(value: Any, where: str) -> str | int | float:
    """Return a value of a right answer in a JSON-compatible form; decimals and dates become text.

    Raises: TaskError for an answer that no answer equals, such as spaces, and for NaN, which is an empty field's value.
    """
    if isinstance(value, Decimal | date | time):
        return str(value)
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise TaskError(f"{where}: the answer is {value!r:.80}, where text or a number is expected.")
    if not comparison.same_answer(value, value):
        raise TaskError(f"{where}: the answer is {value!r:.80}, which no answer equals. Give text or a number.")
    return value


def _database(path: Path, row: Mapping[str, Any], database: str, where: str) -> str:
    """Return the path of a row's database. Raises: TaskError if there is no such file."""
    given = Path(str(row[database]) if row.get(database) else database).expanduser()
    for candidate in (path.parent / given, given):
        if candidate.is_file():
            return str(candidate.resolve())
    raise TaskError(
        f"{where}: the database {given} does not exist, neither beside {path.name} nor in the current folder."
    )
