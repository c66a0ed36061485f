"""Runs inside the sandbox: an SQLite database, the episode's own copy, that may be changed, with transactions.

Uses only the standard library. The clock is fixed and nothing is random, so the same statements give the same database.
"""

from __future__ import annotations

import sqlite3

from .guest import HEAP_LIMIT, READ_ONLY_PRAGMAS, REFUSED_FUNCTIONS, Database
from .guest_state import state_of

NOW = "2026-01-01 12:00:00"
CLOCKS = ("date", "time", "datetime", "julianday", "unixepoch", "strftime")
CURRENT = {"current_timestamp": "datetime", "current_date": "date", "current_time": "time"}
MORE_PAGES = 4_096  # pages of 4 KiB that may be added to the database
STATE_S, PAGES_A_SECOND = 5.0, 2_000  # time for hashing all tables, and pages hashed per second
CHANGES = {
    *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE),
    *(sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT),
    *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_ALTER_TABLE),
    *(sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_REINDEX),
    *(sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_DROP_VIEW),
}


class WritableDatabase(Database):
    """One connection that may change its file but nothing else. Foreign keys are enforced."""

    ALLOWED = "statement"
    REFUSAL = "That is not allowed here: change tables, indexes and views of this database, and nothing else."

    @classmethod
    def of_file(
        cls, path: str, max_rows: int, max_chars: int, timeout_s: float, max_columns: int = 2_000
    ) -> WritableDatabase:
        """Open a file. Limits SQLite's memory in the whole process, so use it only in a sandbox."""
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute(HEAP_LIMIT).fetchall()
        return cls(connection, max_rows, max_chars, timeout_s, max_columns)

    def __init__(
        self, connection: sqlite3.Connection, max_rows: int, max_chars: int, timeout_s: float, max_columns: int = 2_000
    ) -> None:
        super().__init__(connection, max_rows, max_chars, timeout_s, max_columns)
        connection.set_authorizer(None)
        for pragma in ("query_only=0", "synchronous=0", "foreign_keys=1", "recursive_triggers=0"):
            connection.execute(f"PRAGMA {pragma}")
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        self._state_s = STATE_S + pages / PAGES_A_SECOND
        connection.execute(f"PRAGMA max_page_count={pages + MORE_PAGES}").fetchall()
        _stop_the_clock(connection)
        connection.set_authorizer(_authorize)

    def execute(self, sql: str) -> dict[str, object]:
        """Run one statement.

        Returns: `text` for the agent, `open` if a transaction is open, `wrote` unless the statement only read,
            `undone` if it rolled a transaction back.

        Raises: QueryRefused with SQLite's message.
        """
        before = self._connection.total_changes
        rows, changed = self._run(sql, lambda cursor: (cursor.description and self._lines(cursor), cursor.rowcount))
        wrote = rows is None or self._connection.total_changes != before
        if wrote:
            self._list()
        text = rows if rows is not None else f"Done. {changed} rows changed." if changed >= 0 else "Done."
        undone = sql.lstrip().casefold().startswith("rollback")
        return {"text": text, "open": self._connection.in_transaction, "wrote": wrote, "undone": undone}

    def is_open(self) -> str:
        """Return "open" inside a transaction, else "". SQLite itself ends a transaction after some errors."""
        return "open" if self._connection.in_transaction else ""

    def rollback(self) -> None:
        """Roll back the open transaction."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
            self._list()

    def state(self) -> str:
        """Return a hash of every table's current content."""

        def tables(_: object):  # type: ignore[no-untyped-def]
            listing = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            for (name,) in self._connection.execute(listing).fetchall():
                quoted = name.replace('"', '""')
                cursor = self._connection.execute(f'SELECT * FROM "{quoted}"')
                yield name, [column[0] for column in cursor.description], cursor

        timeout_s, self._timeout_s = self._timeout_s, self._state_s
        try:
            state: str = self._run("SELECT 1", lambda cursor: state_of(tables(cursor)))
            return state
        finally:
            self._timeout_s = timeout_s

    def _list(self) -> None:
        """Read the names of tables and views again."""
        listing = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        self._names = [name for (name,) in self._connection.execute(listing) if not name.startswith("sqlite_")]

    def _explain(self, error: str, sql: str) -> str:
        explanation = super()._explain(error, sql)
        if "interrupted" in error and not self._connection.in_transaction:
            explanation += " If a transaction was open, it was rolled back."
        return explanation


def _stop_the_clock(connection: sqlite3.Connection) -> None:
    """Make "now" a fixed moment, so that an episode can be replayed."""
    reader = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    def fixed(name: str):  # type: ignore[no-untyped-def]
        def clock(*arguments: object) -> object:
            index = 1 if name == "strftime" else 0
            given = list(arguments)
            if len(given) <= index:
                given[index:] = [NOW]
            given = [
                NOW if isinstance(argument, str) and argument.casefold() == "now" else argument for argument in given
            ]
            return reader.execute(f"SELECT {name}({','.join('?' * len(given))})", given).fetchone()[0]

        return clock

    for name in CLOCKS:
        connection.create_function(name, -1, fixed(name), deterministic=True)
    for name, clock in CURRENT.items():
        connection.create_function(name, 0, fixed(clock), deterministic=True)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, _: object) -> int:
    """Allow reading and changing this database; no ATTACH, no triggers, no temporary or virtual tables, no PRAGMA."""
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action in CHANGES and database in (None, "main"):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_ALTER_TABLE and first == "main":
        return sqlite3.SQLITE_OK
    # needed to rename a table; SQLite itself refuses it in other statements
    if action == sqlite3.SQLITE_UPDATE and first == "sqlite_temp_master":
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second not in REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA and first in READ_ONLY_PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
