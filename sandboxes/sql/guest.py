"""Runs inside the sandbox: opens the database read-only and answers questions about it.

Uses only the standard library, because this file is sent to the sandbox's interpreter unchanged. The SQL is hostile; it
can do no harm outside this process, which holds only a copy of the database.
"""

from __future__ import annotations

import re
import sqlite3
import time

READ_ONLY_PRAGMAS = {"table_info", "table_xinfo", "table_list", "foreign_key_list", "index_list", "index_info"}
HEAP_LIMIT = "PRAGMA hard_heap_limit=67108864"
STEPS = 1_000  # in a judge's query, the time is checked after this many instructions of SQLite
# functions refused because they load code, or make replays differ
REFUSED_FUNCTIONS = {"load_extension", "fts3_tokenizer", "random", "randomblob"}
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 100_000,  # one value
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 20_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}


class QueryRefused(Exception):
    """The request cannot be served; the message is written for the agent."""

    for_agent = True


class Database:
    """One read-only connection. A query's rows, characters and processor seconds are limited."""

    ALLOWED = "SELECT statement"
    REFUSAL = "Only SELECT is allowed: the database is read-only."

    def __init__(
        self, connection: sqlite3.Connection, max_rows: int, max_chars: int, timeout_s: float, max_columns: int = 2_000
    ) -> None:
        """Use a connection that was opened with `isolation_level=None`."""
        self._max_rows, self._max_chars, self._timeout_s = max_rows, max_chars, timeout_s
        self._deadline = 0.0
        self._steps = 0
        self._connection = connection
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._connection.execute("PRAGMA query_only=1")
        listing = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        self._names = [name for (name,) in self._connection.execute(listing) if not name.startswith("sqlite_")]
        for limit, value in LIMITS.items():
            self._connection.setlimit(limit, value)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, max_columns)
        self._connection.set_authorizer(_authorize)
        self._connection.set_progress_handler(lambda: time.thread_time() > self._deadline, 20_000)

    @classmethod
    def of_file(cls, path: str, max_rows: int, max_chars: int, timeout_s: float, max_columns: int = 2_000) -> Database:
        """Open a file that does not change. Limits SQLite's memory in the whole process: for sandboxes only."""
        connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, isolation_level=None)
        connection.execute(HEAP_LIMIT).fetchall()
        return cls(connection, max_rows, max_chars, timeout_s, max_columns)

    def close(self) -> None:
        self._connection.close()

    def tables(self) -> str:
        return ", ".join(self._names)

    def describe(self, table: str) -> str:
        """Return the columns with their types and references: `customer_id INTEGER -> customers.id`."""
        known = {name.casefold(): name for name in self._names}
        if table.casefold() not in known:
            raise QueryRefused(f"There is no table {table[:60]!r}. Tables: {self.tables()}.")
        name = known[table.casefold()]
        target = {row[3]: f" -> {row[2]}.{row[4] or 'id'}" for row in self._pragma("foreign_key_list", name)}
        columns = self._pragma("table_info", name)
        return ", ".join(f"{row[1]} {row[2]}".strip() + target.get(row[1], "") for row in columns)

    def schema(self) -> str:
        """Return every table with its columns, one line per table."""
        return "\n".join(f"{name}({', '.join(self._columns(name))})" for name in self._names)

    def statements(self) -> str:
        """Return the statements that create the tables and views, one per line."""
        created = "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        rows = self._run(created, list)
        return "\n".join(f"{' '.join(sql.split())};" for name, sql in rows if name in self._names)

    def query(self, sql: str) -> str:
        """Return the rows, one per line, values separated by ` | `. Raises: QueryRefused with SQLite's message."""
        text: str = self._run(sql, lambda cursor: self._lines(_read_only(cursor)))
        return text

    def rows(self, sql: str, most: int) -> dict[str, object]:
        """Return a query's result as plain data, for judges.

        Returns: `rows`, at most `most`; `more`, whether there are further rows; `steps` of SQLite's virtual machine;
            `columns`, their number.
        """
        self._steps = 0

        def tick() -> bool:
            self._steps += STEPS
            return time.thread_time() > self._deadline

        self._connection.set_progress_handler(tick, STEPS)
        try:
            columns, rows = self._run(sql, lambda cursor: _columns_and_rows(_read_only(cursor), most + 1))
        finally:
            self._connection.set_progress_handler(lambda: time.thread_time() > self._deadline, 20_000)
        plain_rows = [[plain(value) for value in row] for row in rows[:most]]
        return {"rows": plain_rows, "more": len(rows) > most, "steps": self._steps, "columns": columns}

    def _run(self, sql: str, read):  # type: ignore[no-untyped-def]
        """Execute one statement and read its result with `read`. Raises: QueryRefused."""
        self._deadline = time.thread_time() + self._timeout_s
        try:
            return read(self._connection.execute(sql))
        except sqlite3.Error as error:
            raise QueryRefused(self._explain(str(error), sql)) from error
        except sqlite3.Warning as error:
            raise QueryRefused(f"Write one {self.ALLOWED} at a time.") from error
        except (ValueError, OverflowError) as error:  # the statement has a null character or a lone surrogate
            raise QueryRefused(f"That is not a query SQLite can read: {str(error)[:100]}.") from error
        except MemoryError as error:
            raise QueryRefused("The query needs too much memory. Ask for less.") from error

    def _lines(self, cursor: sqlite3.Cursor) -> str:
        lines: list[str] = []
        room = self._max_chars
        for row in cursor:
            line = " | ".join(cell(value) for value in row) or EMPTY_TEXT
            if len(lines) == self._max_rows or len(line) > room:
                lines.append(f"[cut: only {len(lines)} rows are shown]" if lines else line[:room] + " [cut]")
                break
            lines.append(line)
            room -= len(line) + 1
        return "\n".join(lines) if lines else "[no rows]"

    def _explain(self, error: str, sql: str) -> str:
        """Return SQLite's message, with hints for a better query."""
        if "not authorized to use function" in error:
            return f"The function {error.split(':')[-1].strip()} is not available here."
        if "not authorized" in error or "authorization denied" in error or "prohibited" in error:
            return self.REFUSAL
        if "interrupted" in error:
            return f"The query took longer than {self._timeout_s:g} s of processor time and was stopped. Ask for less."
        if any(phrase in error for phrase in ("too big", "too large", "out of memory", "disk is full")):
            return "The query or a value in it is too big. Ask for less."
        hint = ""
        if "no such table" in error:
            hint = f". Tables: {self.tables()}"
        elif "no such column" in error:
            words = {word.casefold() for word in re.findall(r"\w+", sql)}
            used = [name for name in self._names if name.casefold() in words]
            hint = "".join(f". Columns of {name}: {', '.join(self._columns(name))}" for name in used[:3])
        return f"SQLite: {error[:200].rstrip('.')}{hint}."

    def _columns(self, name: str) -> list[str]:
        return [row[1] for row in self._pragma("table_info", name)]

    def _pragma(self, pragma: str, name: str) -> list:  # type: ignore[type-arg]
        self._deadline = time.thread_time() + self._timeout_s
        quoted = name.replace('"', '""')
        return self._connection.execute(f'PRAGMA {pragma}("{quoted}")').fetchall()


def _columns_and_rows(cursor: sqlite3.Cursor, most: int) -> tuple[int, list]:  # type: ignore[type-arg]
    return len(cursor.description), cursor.fetchmany(most)


def _read_only(cursor: sqlite3.Cursor) -> sqlite3.Cursor:
    if cursor.description is None:
        raise QueryRefused("Nothing to run: write one SELECT statement.")
    return cursor


def _authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Allow only reading: no writes, no ATTACH, no PRAGMA that changes or reveals the machine."""
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second not in REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first in READ_ONLY_PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


EMPTY_TEXT = "''"  # how a row of one empty text is written


def cell(value: object) -> str:
    """Return a value on one line: text without its line breaks, NULL for a missing value, and bytes as their count."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"[{len(value)} bytes]"
    return " ".join(str(value).splitlines()) if isinstance(value, str) else str(value)


def plain(value: object) -> object:
    """Return a value that JSON can represent: bytes become an `x` and hexadecimal digits."""
    return f"x'{value.hex()}'" if isinstance(value, bytes) else value
