"""For all text-to-SQL importers: finds databases in folders, and makes tasks of questions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet

from .gold_queries import names_in, transpiled, without_bad_golds

ENVIRONMENT = "agentgym/sql-query-v1"
SCHEMAS: dict[str, bool | str] = {"columns": True, "statements": "statements", "none": False}
"""Values of the importers' `schema`, and the `show_schema` of their tasks."""
SUFFIXES = (".sqlite", ".db", ".sqlite3")
HARDNESS = {"easy": 1.0, "simple": 1.0, "medium": 2.0, "moderate": 2.0, "hard": 3.0, "challenging": 3.0, "extra": 4.0}


def first_file(folder: Path, *names: str) -> Path:
    """Return the first of these files that the folder has. Raises: TaskError naming all of them."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise TaskError(f"{folder} contains none of {', '.join(names)}. Give the folder that does.")


def databases_in(folder: Path) -> dict[str, Path]:
    """Return the SQLite files at any depth below a folder, by file name without suffix."""
    databases: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file():
            databases.setdefault(path.stem, path)
    return databases


def splits_of(
    databases: Collection[str], split: Split, validation: str | Sequence[str], held_out: str | Sequence[str]
) -> dict[str, Split]:
    """Return the split of each database's questions: `validation` or `held_out` if it lists the database, else `split`.

    Lists are sequences of names, or text with commas between them.

    Raises: TaskError if a listed database does not exist or is listed twice.
    """
    splits = dict.fromkeys(databases, split)
    validation, held_out = (
        [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        for names in (validation, held_out)
    )
    listed = [*validation, *held_out]
    if wrong := [name for name in listed if name not in splits or listed.count(name) > 1]:
        raise TaskError(
            f"validation={[*validation]} and held_out={[*held_out]} must list databases of the folder, each once. "
            f"Look at {wrong[0]!r}; there are {', '.join(sorted(databases))}."
        )
    return splits | dict.fromkeys(validation, "validation") | dict.fromkeys(held_out, "held_out")


def task_set_of(name: str, tasks: list[Task], where: Path, *, check_golds: bool) -> TaskSet:
    """Return the tasks as a task set, each in its split; `check_golds` applies `without_bad_golds` to them."""
    if check_golds:
        tasks = without_bad_golds(tasks, where)
    by_split: dict[str, list[Task]] = {}
    for task in tasks:
        by_split.setdefault(task.split, []).append(task)
    return TaskSet(name, by_split, oracle=run_gold_query)


def question(
    task_id: str,
    prompt: str,
    gold: str,
    database: Path,
    *,
    split: Split,
    set_name: str,
    name: str,
    hardness: str = "",
    environment: str = ENVIRONMENT,
    suite: tuple[str, ...] = (),
    transpile: str | None = None,
    schema: str = "columns",
) -> Task:
    """Return a task: a question about a database, with its gold query.

    Args:
        schema: what the prompt shows of the database: the tables' `columns`, the `statements` that create them, or
            `none`, with which the agent asks by the tools `tables` and `describe`.
        transpile: dialect into which the gold query is translated.
        suite: further databases of the same schema, on which the query must be right too.
    Raises: TaskError for another `schema`.
    """
    if schema not in SCHEMAS:
        raise TaskError(f"schema = {schema!r} is not one of {', '.join(SCHEMAS)}.")
    truth: dict[str, Any] = {"sql": transpiled(gold, transpile, names_in(database)) if transpile else gold}
    if suite:
        truth["suite"] = [{"database": str(Path(path).resolve())} for path in suite]
    return Task(
        id=task_id,
        environment=environment,
        prompt=prompt,
        parameters={"database": str(database.resolve()), "show_schema": SCHEMAS[schema]},
        truth=truth,
        split=split,
        tags=tuple(tag for tag in (set_name, name, hardness) if tag),
        difficulty=HARDNESS.get(hardness, 0.0),
    )


def run_gold_query(task: Task) -> list[Message]:
    """Return messages that run the gold query, then submit it."""
    return [Message("assistant", "", (Call(name, {"sql": task.truth["sql"]}),)) for name in ("query", "submit")]
