"""Returns the SQLite database that a task names, as the bytes of its file."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym import Task, TaskError, UnknownNameError, load

MAX_FILE_BYTES = 2**30
CACHED_FILE_BYTES = 16 * 2**20
STATEMENTS = "statements"
LOOKUPS = frozenset({"tables", "describe"})
"""Tools that an agent does not need, and is not given, if its prompt has the statements."""


def shown_schema(task: Task, *, has_statements: bool = True) -> str | None:
    """Return the engine's method whose text shows the schema in the prompt; None if the prompt does not show it.

    Args:
        has_statements: whether the engine has the statements that create its tables.
    Raises: TaskError for a wrong value of the parameter `show_schema`.
    """
    value = task.parameters.get("show_schema", False)
    if value == STATEMENTS and has_statements:
        return STATEMENTS
    if not isinstance(value, bool | None):
        rest = ', "statements" for the statements that create them' if has_statements else ""
        raise TaskError(
            f"{task.id}: parameters['show_schema'] = {value!r} cannot be used with {task.environment}. Write true for "
            f"the tables with their columns{rest}, or false."
        )
    return "schema" if value else None


def database_of(task: Task) -> bytes:
    """Return the content of the SQLite file that the task's parameters name.

    The parameters are either `database`, the name of an asset such as "sql/store" or the path of an SQLite file (and
    `seed`, an integer given to the asset); or `tables`, a list of `{"name", "columns": [[name, type], ...], "rows":
    [[...], ...]}`.

    Raises: TaskError if there is no such database.
    """
    if "tables" in task.parameters:
        return _from_tables(task.id, task.parameters["tables"])
    name = task.parameters.get("database")
    if not isinstance(name, str) or not name:
        raise TaskError(f"{task.id}: parameters['database'] must be an asset or an SQLite file, not {name!r}.")
    path = Path(name)
    if path.is_file():
        status = path.stat()
        if status.st_size > MAX_FILE_BYTES:
            raise TaskError(
                f"{task.id}: {name!r} has {status.st_size} bytes, but at most {MAX_FILE_BYTES} are allowed."
            )
        is_small = status.st_size <= CACHED_FILE_BYTES
        content = _read(name, status.st_mtime_ns, status.st_size) if is_small else path.read_bytes()
    else:
        try:
            asset: Any = load("assets", name)
        except UnknownNameError as error:
            raise TaskError(f"{task.id}: the database {name!r} is neither a file nor an asset. {error}") from error
        seeded = "seed" in task.parameters and "seed" in inspect.signature(asset).parameters
        content = asset(seed=task.parameters["seed"]) if seeded else asset()
    if not content.startswith(b"SQLite format 3\0"):
        raise TaskError(f"{task.id}: {name!r} is not an SQLite 3 database: it begins with {content[:16]!r}.")
    return content


@lru_cache(maxsize=8)
def _read(name: str, changed_ns: int, size: int) -> bytes:
    """Return a file's bytes. Its time and size are arguments so that the cache tells versions of the file apart."""
    return Path(name).read_bytes()


def _from_tables(where: str, tables: Sequence[Mapping[str, Any]]) -> bytes:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        try:
            for table in tables:
                columns = ", ".join(f"{_quoted(name)} {_checked_type(kind)}" for name, kind in table["columns"])
                connection.execute(f"CREATE TABLE {_quoted(table['name'])} ({columns})")
                marks = ",".join("?" * len(table["columns"]))
                connection.executemany(f"INSERT INTO {_quoted(table['name'])} VALUES ({marks})", table["rows"])
        except (sqlite3.Error, KeyError, TypeError, ValueError, OverflowError) as error:
            raise TaskError(
                f"{where}: parameters['tables'] cannot be made into a database: {error!r}. Write each table as "
                '{"name": text, "columns": [[name, type], ...], "rows": [[value, ...], ...]}.'
            ) from error
        content: bytes = connection.serialize()
        return content


def _quoted(name: str) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def _checked_type(kind: str) -> str:
    if not all(char.isalnum() or char in "_ (),." for char in kind):
        raise ValueError(f"{kind!r} is not a column type")
    return kind
