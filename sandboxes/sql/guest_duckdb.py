"""Runs inside the sandbox: DuckDB in memory, filled from an SQLite file and then locked down.

Needs the package duckdb, which this environment makes visible in the sandbox. The SQL is hostile.
"""

from __future__ import annotations

import csv
import os
import threading

from .guest import EMPTY_TEXT, QueryRefused, cell
from .guest_source import quote, source_tables

TYPES = {"integer": "BIGINT", "real": "DOUBLE", "blob": "BLOB", "text": "VARCHAR"}
NULL = "\\N"
LOCKED = (
    "SET enable_progress_bar = false",  # the progress bar would be written into the reply
    "SET enable_external_access = false",
    "SET allow_community_extensions = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET lock_configuration = true",
)
READING = ("SELECT", "EXPLAIN")
CHANCE = ("random", "uuid", "sample", "shuffle")
CHARS_OF_A_VALUE = 100_000


class DuckDatabase:
    """One connection. Only SELECT is allowed; a query's rows, characters, seconds and memory are limited."""

    def __init__(self, path: str, max_rows: int, max_chars: int, timeout_s: float, memory_mb: int = 128) -> None:
        import duckdb

        self._duckdb = duckdb
        self._max_rows, self._max_chars, self._timeout_s = max_rows, max_chars, timeout_s
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "threads": 1,
                "memory_limit": f"{memory_mb}MB",
                "temp_directory": "",
                "max_temp_directory_size": "0KB",
            },
        )
        self._names: list[str] = []
        self._links: dict[str, dict[str, str]] = {}
        with source_tables(path) as tables:
            for table in tables:
                self._load(table)
        for statement in LOCKED:
            self._connection.execute(statement)
        self._watch = Watch(timeout_s, self._connection.interrupt)

    def _load(self, table) -> None:  # type: ignore[no-untyped-def]
        columns = ", ".join(f"{quote(name)} {TYPES[kind]}" for name, kind in table.columns)
        self._connection.execute(f"CREATE TABLE {quote(table.name)} ({columns})")
        self._names.append(table.name)
        self._links[table.name] = {column: f" -> {other}.{key}" for column, other, key in table.links}
        if any(kind == "blob" for _, kind in table.columns):
            marks = ", ".join("?" * len(table.columns))
            self._connection.executemany(f"INSERT INTO {quote(table.name)} VALUES ({marks})", list(table.rows()))
            return
        with open("rows.csv", "w", newline="", encoding="utf-8", errors="replace") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
            writer.writerows([NULL if v is None else str(v).replace("\0", "") for v in row] for row in table.rows())
        if os.path.getsize("rows.csv"):
            self._connection.execute(
                f"COPY {quote(table.name)} FROM 'rows.csv' (FORMAT csv, HEADER false, DELIMITER ',', QUOTE '\"', "
                f"ESCAPE '\"', NULLSTR '{NULL}', ALLOW_QUOTED_NULLS true, AUTO_DETECT false, NEW_LINE '\\n')"
            )
        os.unlink("rows.csv")

    def tables(self) -> str:
        return ", ".join(self._names)

    def describe(self, table: str) -> str:
        """Return the columns with their types and references."""
        known = {name.casefold(): name for name in self._names}
        if table.casefold() not in known:
            raise QueryRefused(f"There is no table {table[:60]!r}. Tables: {self.tables()}.")
        name = known[table.casefold()]
        return ", ".join(f"{row[0]} {row[1]}{self._links[name].get(row[0], '')}" for row in self._described(name))

    def schema(self) -> str:
        """Return every table with its columns, one line per table."""
        return "\n".join(f"{name}({', '.join(row[0] for row in self._described(name))})" for name in self._names)

    def query(self, sql: str) -> str:
        """Return the rows, one per line, values separated by ` | `. Raises: QueryRefused with DuckDB's message."""
        rows = self._run(sql, self._max_rows + 1)
        lines: list[str] = []
        room = self._max_chars
        for row in rows:
            line = " | ".join(cell(_plain(value)) for value in row) or EMPTY_TEXT
            if len(lines) == self._max_rows or len(line) > room:
                lines.append(f"[cut: only {len(lines)} rows are shown]" if lines else line[:room] + " [cut]")
                break
            lines.append(line)
            room -= len(line) + 1
        return "\n".join(lines) if lines else "[no rows]"

    def rows(self, sql: str, most: int) -> dict[str, object]:
        """Return, for judges, at most `most` rows as plain data, and whether there are more. Steps are not counted."""
        rows = self._run(sql, most + 1)
        return {
            "rows": [[_plain(value) for value in row] for row in rows[:most]],
            "more": len(rows) > most,
            "steps": None,
            "columns": len(self._connection.description),
        }

    def _described(self, name: str) -> list:  # type: ignore[type-arg]
        return self._connection.execute(f"DESCRIBE {quote(name)}").fetchall()

    def _run(self, sql: str, most: int) -> list:  # type: ignore[type-arg]
        try:
            statements = self._connection.extract_statements(sql)
        except self._duckdb.Error as error:
            raise QueryRefused(f"DuckDB: {_first_line(error)}") from error
        if len(statements) != 1:
            raise QueryRefused(
                "Write one SELECT statement at a time." if statements else "Nothing to run: write one SELECT."
            )
        if statements[0].type.name not in READING:
            raise QueryRefused("Only SELECT is allowed: the database is read-only.")
        self._watch.begin()
        try:
            if any(word in sql.casefold() for word in CHANCE):  # makes random values the same in every episode
                self._connection.execute("SELECT setseed(0.5)")
            return self._connection.execute(statements[0]).fetchmany(most)
        except self._duckdb.InterruptException as error:
            raise QueryRefused(
                f"The query took longer than {self._timeout_s:g} s and was stopped. Ask for less."
            ) from error
        except self._duckdb.OutOfMemoryException as error:
            raise QueryRefused("The query needs too much memory. Ask for less.") from error
        except self._duckdb.Error as error:
            hint = f" Tables: {self.tables()}." if isinstance(error, self._duckdb.CatalogException) else ""
            raise QueryRefused(f"DuckDB: {_first_line(error)}{hint}") from error
        except (
            RuntimeError,
            ValueError,
            OverflowError,
            MemoryError,
        ) as error:  # raised by the Python values that DuckDB creates
            raise QueryRefused(f"The result cannot be shown: {_first_line(error)}") from error
        finally:
            self._watch.end()


class Watch:
    """Interrupts queries that take too long, from one sleeping thread: starting a thread takes as long as a query."""

    def __init__(self, timeout_s: float, interrupt) -> None:  # type: ignore[no-untyped-def]
        self._timeout_s, self._interrupt = timeout_s, interrupt
        self._begun, self._over, self._seen = threading.Semaphore(0), threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def begin(self) -> None:
        self._begun.release()

    def end(self) -> None:
        """End the watch. No query is interrupted after this returns."""
        self._over.release()
        self._seen.acquire()

    def _run(self) -> None:
        while True:
            self._begun.acquire()
            if not self._over.acquire(timeout=self._timeout_s):
                self._interrupt()
                self._over.acquire()
            self._seen.release()


def _plain(value: object) -> object:
    """Return a value that JSON can represent: a value that is neither number nor text becomes Python's text for it."""
    if value is None or isinstance(value, (bool, int, float)):
        return value if not isinstance(value, bool) else int(value)
    if isinstance(value, bytes):
        return f"x'{value[:CHARS_OF_A_VALUE].hex()}'"
    if type(value).__name__ == "Decimal":
        is_whole = value.as_tuple().exponent >= 0  # type: ignore[attr-defined]
        return int(value) if is_whole else float(value)  # type: ignore[call-overload, arg-type]
    return str(value)[:CHARS_OF_A_VALUE]


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split("\n\n")[0].split())[:300]
