"""Runs inside the sandbox: one table of whole numbers in memory, which statements may read and change.

Uses only the standard library. Nothing is random and no clock is read, so the numbers are the whole state.
"""

from __future__ import annotations

import sqlite3

from .guest import HEAP_LIMIT, REFUSED_FUNCTIONS, Database, QueryRefused

CLOCKS = {
    *("date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"),
    *("current_date", "current_time", "current_timestamp"),
}


class NumberTable(Database):
    """The table `stock`: it has a row for each city, and a column of whole numbers for each item.

    Only SELECT and UPDATE are allowed, and only numbers can change, not the cities.
    """

    ALLOWED = "statement"
    REFUSAL = "Only SELECT, and UPDATE of numbers, are allowed."

    @classmethod
    def in_sandbox(cls, *arguments: object) -> NumberTable:
        """Create a table as the constructor does, and limit SQLite's memory in the whole process."""
        table = cls(*arguments)  # type: ignore[arg-type]
        table._connection.set_authorizer(None)
        table._connection.execute(HEAP_LIMIT).fetchall()
        table._connection.set_authorizer(_authorize)
        return table

    def __init__(
        self,
        items: list[str],
        cities: list[str],
        numbers: list[int],
        max_rows: int,
        max_chars: int,
        timeout_s: float,
        max_columns: int = 2_000,
    ) -> None:
        """Make the table.

        Args:
            items, cities: names of the columns, and of the rows in alphabetical order.
            numbers: row by row.
        """
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        columns = ", ".join(f"{item} INTEGER NOT NULL CHECK (typeof({item}) = 'integer')" for item in items)
        connection.execute(f"CREATE TABLE stock (city TEXT PRIMARY KEY, {columns}) WITHOUT ROWID")
        width = len(items)
        rows = [(city, *numbers[n * width : (n + 1) * width]) for n, city in enumerate(cities)]
        connection.executemany(f"INSERT INTO stock VALUES ({','.join('?' * (width + 1))})", rows)
        super().__init__(connection, max_rows, max_chars, timeout_s, max_columns)
        connection.set_authorizer(None)
        connection.execute("PRAGMA query_only=0")
        connection.set_authorizer(_authorize)

    def run(self, sql: str) -> dict[str, object]:
        """Run one statement.

        Returns: `text` for the agent, `refused`, whether the statement was, and the `numbers` after it, row by row.
        """
        refused = False
        try:
            text = self._run(sql, self._result_text)
        except QueryRefused as refusal:
            text, refused = str(refusal), True
        rows = self._run("SELECT * FROM stock ORDER BY city", lambda cursor: cursor.fetchall())
        return {"text": text, "refused": refused, "numbers": [number for row in rows for number in row[1:]]}

    def _result_text(self, cursor: sqlite3.Cursor) -> str:
        if cursor.description is not None:
            return self._lines(cursor)
        if cursor.rowcount < 0:
            raise QueryRefused("Nothing to run: write one statement.")
        return f"Changed {cursor.rowcount} row{'' if cursor.rowcount == 1 else 's'}."

    def _explain(self, error: str, sql: str) -> str:
        """Return SQLite's message without hints: the agent knows the only table."""
        explanation = super()._explain(error, "")
        return explanation.partition(". Tables:")[0].rstrip(".") + "."


def _authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Allow reading, and changing numbers; no other tables, transactions, settings or clocks."""
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_UPDATE and first == "stock" and second != "city":
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second not in REFUSED_FUNCTIONS and str(second).lower() not in CLOCKS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
