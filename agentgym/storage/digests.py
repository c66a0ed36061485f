"""Digests of a ledger's rows: what a disk or a copy has changed is found when it is read.

Each row of an episode, a turn or a summary carries the digest of its other columns. SQLite checks the order and the
structure of its tables, so that no row gets lost unnoticed: `check_structure`. Rows that an earlier agentgym wrote have
no digest, and are read as before.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentgym.errors import LedgerError

COLUMN = "digest"
_BYTES = 16
_SQL_FUNCTION = "row_digest"
_REMEDY = "The file is damaged: restore a copy, or delete the file and run again."


def digest_of(*values: Any) -> bytes:
    """Return the digest of a row's values: None, numbers, texts and bytes.

    SQLite hands back a truth value as a number, and a whole number as a float from some columns: these count as equal.
    """
    parts: list[bytes] = []
    for value in values:
        if isinstance(value, bytes):
            kind, data = b"b", value
        elif isinstance(value, str):
            kind, data = b"s", value.encode("utf-8", "surrogatepass")
        elif value is None:
            kind, data = b"-", b""
        else:
            kind, data = b"n", repr(value + 0).encode().removesuffix(b".0")
        parts += (b"%s%d:" % (kind, len(data)), data)
    return hashlib.sha256(b"".join(parts)).digest()[:_BYTES]


def check_row(path: Path, what: str, values: Iterable[object], digest: bytes | None) -> None:
    """Compare a row with its digest; a row of an earlier agentgym has none. `what`: names the row, for the message.

    Raises: LedgerError if the row is not what was written.
    """
    if digest is not None and digest_of(*values) != digest:
        raise LedgerError(f"{path}: {what} is damaged: it is not what was written. {_REMEDY}")


def check_structure(connection: sqlite3.Connection, path: Path) -> None:
    """Have SQLite look for rows that are lost, doubled or out of place. Raises: LedgerError with what it says."""
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise LedgerError(f"{path} is damaged: {verdict}. {_REMEDY}")


def teach(connection: sqlite3.Connection) -> None:
    """Let SQL statements of a connection compute digests."""
    connection.create_function(_SQL_FUNCTION, -1, digest_of, deterministic=True)


def has_digests(connection: sqlite3.Connection, table: str) -> bool:
    """Return whether a table has digests, which those of an earlier agentgym lack."""
    database, _, name = table.rpartition(".")
    return any(row[1] == COLUMN for row in connection.execute(f"PRAGMA {database or 'main'}.table_info({name})"))


def renew(connection: sqlite3.Connection, table: str, columns: str, condition: str, values: tuple[object, ...]) -> None:
    """Write the digests of some rows anew, after a statement has changed them."""
    connection.execute(
        f"UPDATE {table} SET {COLUMN} = {_SQL_FUNCTION}({columns}) WHERE {COLUMN} IS NOT NULL AND {condition}", values
    )
