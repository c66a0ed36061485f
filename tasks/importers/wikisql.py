"""Read WikiSQL from files that the user has; no data is part of this package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet

from .gold_queries import transpiled, without_bad_golds
from .items import read_items, text_of
from .text_to_sql import ENVIRONMENT, run_gold_query

AGGREGATES = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
OPERATORS = ("=", ">", "<", "OP")
TYPES = {"text": "TEXT", "real": "REAL"}


def load_wikisql(
    path: str | Path,
    *,
    split: Split = "held_out",
    environment: str = ENVIRONMENT,
    transpile: str | None = None,
    check_golds: bool = True,
) -> TaskSet:
    """The questions of a WikiSQL file as tasks of a text-to-SQL environment, each with its one table.

    Next to `dev.jsonl` (`question`, `table_id`, `sql` as `{"sel", "agg", "conds"}`) must be `dev.tables.jsonl` (`id`,
    `header`, `types`, `rows`). The table is called `data`; text is compared ignoring case, as by WikiSQL's own judge.

    Args:
        path: the file of questions.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        environment: the tasks' environment, by default SQLite in a sandbox. Another one may have another dialect of
            SQL: see `transpile`.
        transpile: the dialect of the environment's engine, such as "duckdb"; sqlglot writes the gold queries in it.
        check_golds: run every gold query. A warning names those that fail or return no rows; their tasks are left out
            of the split train.
    Raises: TaskError naming the file, the item and its fault.
    Source: Zhong et al. 2017, arXiv:1709.00103.
    """
    path = Path(path)
    beside = path.with_name(path.name.removesuffix(".jsonl") + ".tables.jsonl")
    tables = {str(item.get("id")): item for item in read_items(beside)}
    tasks = []
    for index, item in enumerate(read_items(path)):
        where = f"{path}, item {index}"
        table = tables.get(str(item.get("table_id")))
        if table is None:
            raise TaskError(f"{where}: its table {item.get('table_id')!r} is not in {beside}.")
        try:
            gold = _gold(item["sql"], table["header"], table["types"])
            columns = _columns(table["header"], table["types"])
            gold = transpiled(gold, transpile, ["data", *(name for name, _ in columns)]) if transpile else gold
            rows = [
                [_cell(value, kind) for value, kind in zip(row, table["types"], strict=True)] for row in table["rows"]
            ]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise TaskError(f"{where}: its query or table does not have WikiSQL's form: {error!r}.") from error
        tasks.append(
            Task(
                id=f"wikisql/{index:05d}",
                environment=environment,
                prompt=text_of(item, where, "question"),
                parameters={"tables": [{"name": "data", "columns": columns, "rows": rows}], "show_schema": True},
                truth={"sql": gold},
                split=split,
                tags=("wikisql",),
                difficulty=float(len(item["sql"]["conds"])),
            )
        )
    if check_golds:
        tasks = without_bad_golds(tasks, path)
    return TaskSet("sql/wikisql-v1", {split: tasks}, oracle=run_gold_query)


def _gold(query: Mapping[str, Any], header: list[str], types: list[str]) -> str:
    names = [name for name, _ in _columns(header, types)]
    quoted = [f'"{name}"' for name in names]
    chosen = quoted[query["sel"]]
    aggregate = AGGREGATES[query["agg"]]
    conditions = []
    for column, operator, value in query["conds"]:
        if types[column] == "real":
            text = repr(_cell(value, "real"))
            conditions.append(f"{quoted[column]} {OPERATORS[operator]} {text if text != 'None' else 'NULL'}")
        else:
            literal = str(value).casefold().replace("'", "''")
            conditions.append(f"LOWER({quoted[column]}) {OPERATORS[operator]} '{literal}'")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {f'{aggregate}({chosen})' if aggregate else chosen} FROM data{where}"


def _columns(header: list[str], types: list[str]) -> list[list[str]]:
    """Return the table's column names without quotes, made unique ignoring case."""
    used: set[str] = set()
    columns = []
    for number, (name, kind) in enumerate(zip(header, types, strict=True)):
        name = str(name).replace('"', "").strip() or f"column {number + 1}"
        while name.casefold() in used:
            name += "_"
        used.add(name.casefold())
        columns.append([name, TYPES[kind]])
    return columns


def _cell(value: Any, kind: str) -> Any:
    """Return the value as a number if the column is numeric and the value can be read as one, else as text."""
    if value is None:
        return None
    if kind == "real":
        try:
            return float(str(value).replace(",", ""))
        except ValueError:
            return str(value)
    return str(value)
