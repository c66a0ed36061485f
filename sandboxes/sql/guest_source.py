"""Runs inside the sandbox: reads an SQLite file as tables that another engine can load.

Uses only the standard library. SQLite allows any value in any column and other engines do not, so a column's type is
determined by its values.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any


class SourceTable:
    """One table of an SQLite file.

    `columns`: (name, kind), where kind is integer, real, blob or text. `key`: the columns of the primary key, in the
    key's order. `links`: foreign keys as (column, other table, its column).
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.name = name
        self._connection = connection
        quoted = quote(name)
        listing = connection.execute(f"PRAGMA table_info({quoted})").fetchall()
        self._kinds = [_kind_of(_types_in(connection, name, column[1]), column[2]) for column in listing]
        self.columns = [(column[1], kind) for column, kind in zip(listing, self._kinds)]  # noqa: B905  Python 3.9 in guests
        self.key = _key_of(listing)
        self.links = []
        for _, number, other, column, target, *_ in connection.execute(f"PRAGMA foreign_key_list({quoted})").fetchall():
            key = _key_of(connection.execute(f"PRAGMA table_info({quote(other)})").fetchall())
            if target or number < len(key):  # without a target, SQLite means the other table's primary key
                self.links.append((column, other, target or key[number]))

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows, converted to the columns' types, one at a time: a large table need not fit into memory."""
        for row in self._connection.execute(f"SELECT * FROM {quote(self.name)}"):
            yield tuple(_fitting(value, kind) for value, kind in zip(row, self._kinds))  # noqa: B905


@contextmanager
def source_tables(path: str) -> Iterator[list[SourceTable]]:
    """Open an SQLite file and give every table of it, sorted by name."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        listing = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        names = [name for (name,) in connection.execute(listing).fetchall() if not name.startswith("sqlite_")]
        yield [SourceTable(connection, name) for name in names]


def _key_of(listing: list[tuple[Any, ...]]) -> list[str]:
    """Return the columns of the primary key, in the key's order, from SQLite's listing of a table."""
    return [column[1] for column in sorted(listing, key=lambda column: column[5]) if column[5]]


def quote(name: str) -> str:
    """Return a name in SQL's quotes."""
    return '"' + name.replace('"', '""') + '"'


def _types_in(connection: sqlite3.Connection, table: str, column: str) -> set[str]:
    """Return SQLite's names of the types of a column's values, without null."""
    listing = connection.execute(f"SELECT DISTINCT typeof({quote(column)}) FROM {quote(table)}")
    return {kind for (kind,) in listing} - {"null"}


def _kind_of(present: set[str], declared: str) -> str:
    if not present:
        affinity = declared.upper()
        return (
            "integer"
            if "INT" in affinity
            else "real"
            if any(k in affinity for k in ("REAL", "FLOA", "DOUB"))
            else "text"
        )
    if present == {"integer"}:
        return "integer"
    if present <= {"integer", "real"}:
        return "real"
    return "blob" if present == {"blob"} else "text"


def _fitting(value: object, kind: str) -> object:
    if value is None:
        return None
    if kind == "real":
        return float(value)  # type: ignore[arg-type]
    if kind == "text" and not isinstance(value, str):
        return value.hex() if isinstance(value, bytes) else str(value)
    return value
