"""Read DBBench (AgentBench's database tasks) from a file that the user has; no data is part of this package."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet

from .items import read_items, report_left_out, text_of

CHANGES = ("INSERT", "UPDATE", "DELETE")
ENVIRONMENT = "agentgym/sql-write-v1"


def load_dbbench(path: str | Path, *, split: Split = "held_out", environment: str = ENVIRONMENT) -> TaskSet:
    """The tasks of a DBBench file: questions, judged by the published answers, and changes, judged by the final tables.

    The published SQL of a question is not used, because it is often wrong; an agent that answers a question must change
    nothing. For a change the published label is an SQL statement, which is run to find the required final tables.
    Changes whose statement does not run on SQLite, or changes nothing, are left out, and a warning names them.

    Args:
        path: JSON lines with `description`, `label`, `type`, `table` and `add_description`.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        environment: the tasks' environment, by default SQLite in a sandbox; it needs a `finish` that reports the final
            state.
    Raises: TaskError naming the file, the item and its fault.
    Source: Liu et al. 2023, arXiv:2308.03688.
    """
    path = Path(path)
    tasks: list[Task] = []
    reasons: dict[str, str] = {}
    for index, item in enumerate(read_items(path)):
        where = f"{path}, item {index}"
        tables = [_table(table, where) for table in _listed(item.get("table"))]
        label = item.get("label")
        kinds = item.get("type")
        if not tables or not isinstance(label, list) or not label or not isinstance(kinds, list) or not kinds:
            raise TaskError(f"{where}: expected lists `label` and `type` and a `table`, found {sorted(item)}.")
        change = str(kinds[0]).upper() in CHANGES
        if change and (reason := _useless(tables, str(label[0]))):
            reasons[f"item {index}"] = reason
            continue
        notes = item.get("add_description")
        prompt = text_of(item, where, "description") + (f"\n{notes}" if isinstance(notes, str) and notes else "")
        tasks.append(
            Task(
                id=f"dbbench/{index:04d}",
                environment=environment,
                prompt=prompt,
                parameters={"tables": tables},
                truth={"sql": [str(label[0])]} if change else {"sql": [], "answers": [str(value) for value in label]},
                split=split,
                tags=("dbbench", str(kinds[0]).lower()),
            )
        )
    report_left_out(path, reasons, len(tasks))
    return TaskSet("sql/dbbench-v1", {split: tasks}, oracle=_solution)


def _solution(task: Task) -> list[Message]:
    """Return messages that execute the label's statements, then give its answer."""
    calls = [*(Call("execute", {"sql": sql}) for sql in task.truth["sql"])]
    calls.append(Call("finish", {"answer": str(task.truth.get("answers", ""))}))
    return [Message("assistant", "", (call,)) for call in calls]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _table(table: Any, where: str) -> dict[str, Any]:
    try:
        columns = [[column["name"], _type(column["type"])] for column in table["table_info"]["columns"]]
        rows = [[_cell(value) for value in row] for row in table["table_info"]["rows"]]
        return {"name": table["table_name"], "columns": columns, "rows": rows}
    except (KeyError, TypeError) as error:
        raise TaskError(f"{where}: its table does not have DBBench's form: {error!r}.") from error


def _type(name: Any) -> str:
    cleaned = "".join(char for char in str(name) if char.isalnum() or char in "_ (),.")
    return cleaned or "TEXT"


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, (int, float, str)) else str(value)


def _useless(tables: Sequence[Mapping[str, Any]], statement: str) -> str:
    """Return why a change cannot be judged; empty if it can."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for table in tables:
            columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in table["columns"])
            connection.execute(f"CREATE TABLE {_quoted(table['name'])} ({columns})")
            marks = ",".join("?" * len(table["columns"]))
            connection.executemany(f"INSERT INTO {_quoted(table['name'])} VALUES ({marks})", table["rows"])
        before = connection.total_changes
        try:
            connection.execute(statement)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return f"SQLite: {error}"
        return "" if connection.total_changes > before else "it changes nothing"


def _quoted(name: str) -> str:
    return '"' + str(name).replace('"', '""') + '"'
