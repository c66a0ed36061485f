"""Digests of a ledger's rows and of a run's JSON files: corruption by a disk or a copy is detected on reading.

Each row of an episode, a turn or a summary has the digest of its other columns. `check_structure` lets SQLite check the
order and structure of its tables, so that lost rows are detected. Rows written by an earlier agentgym have no digest,
and are read unchecked.

The digest is CRC-32. It finds every flipped bit, and misses one in four thousand million cases of other damage, at a
fifth of the cost of SHA-256. It does not protect a ledger against someone who changes it on purpose.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentgym.errors import LedgerError

COLUMN = "digest"
SEAL = "file_digest"
"""The key of the entry in a JSON file that holds the digest of all other entries."""
_SQL_FUNCTION = "row_digest"
_REMEDY = "The file is damaged: restore a copy, or delete the file and run again."


def digest_of(*values: Any) -> int:
    """Return the digest of a row's values, which are None, numbers, texts or bytes.

    SQLite returns a bool as a number, and a whole number as a float from some columns: these have equal digests.
    """
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(b"-0:")
            continue
        if isinstance(value, bytes):
            kind, data = b"b%d:", value
        elif isinstance(value, str):
            kind, data = b"s%d:", value.encode("utf-8", "surrogatepass")
        elif type(value) is int:
            kind, data = b"n%d:", b"%d" % value
        else:
            kind, data = b"n%d:", repr(value + 0).encode().removesuffix(b".0")
        parts += (kind % len(data), data)
    return zlib.crc32(b"".join(parts))


def check_row(path: Path, what: str, values: Iterable[object], digest: int | None) -> None:
    """Check a row against its digest, if it has one. `what`: a name of the row for the error message.

    Raises: LedgerError if the row does not match.
    """
    if digest is not None and digest_of(*values) != digest:
        raise LedgerError(f"{path} is damaged: {what} differs from its recorded digest. {_REMEDY}")


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its digest as the last entry, for a file that people also read."""
    return {**data, SEAL: _digest_of_json(data)}


def unsealed(path: Path, data: Any) -> Any:
    """Return a parsed, sealed object without its digest; other data unchanged. Raises: LedgerError if it differs."""
    if not isinstance(data, dict) or SEAL not in data:
        return data
    content = {key: value for key, value in data.items() if key != SEAL}
    if _digest_of_parsed(content) != data[SEAL]:
        raise LedgerError(
            f"{path} is damaged or was edited: it does not match its {SEAL!r}. Restore a copy, or delete the entry "
            f"{SEAL!r} to use the file as it is."
        )
    return content


def read_lines(text: str) -> tuple[list[dict[str, Any]], int]:
    """Return the objects of a text of JSON lines, without their digests, and how many lines are damaged.

    A line that a killed process has cut off is damaged too, and so is a line without a digest among lines that have
    one. A text of an earlier agentgym has no digests, and is read unchecked.
    """
    rows, damaged = [], 0
    are_sealed = f'"{SEAL}"' in text
    for line in filter(str.strip, text.splitlines()):
        try:
            row = json.loads(line)
            if not isinstance(row, dict) or (are_sealed and SEAL not in row):
                raise ValueError(line)
            rows.append(unsealed(Path(), row))
        except (ValueError, RecursionError, LedgerError):
            damaged += 1
    return rows, damaged


def _digest_of_json(data: Any) -> int:
    """Return the digest of data as a reader parses it: keys that are numbers become texts."""
    return _digest_of_parsed(json.loads(json.dumps(data, ensure_ascii=False)))


def _digest_of_parsed(data: Any) -> int:
    return digest_of(json.dumps(data, sort_keys=True, ensure_ascii=False))


def check_structure(connection: sqlite3.Connection, path: Path) -> None:
    """Let SQLite check for lost, duplicate or misplaced rows. Raises: LedgerError with SQLite's finding."""
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise LedgerError(f"{path} is damaged: {verdict}. {_REMEDY}")


def teach(connection: sqlite3.Connection) -> None:
    """Register the digest function for SQL statements of a connection."""
    connection.create_function(_SQL_FUNCTION, -1, digest_of, deterministic=True)


def has_digests(connection: sqlite3.Connection, table: str) -> bool:
    """Return whether a table has digests; tables from an earlier agentgym do not."""
    database, _, name = table.rpartition(".")
    return any(row[1] == COLUMN for row in connection.execute(f"PRAGMA {database or 'main'}.table_info({name})"))


def renew(connection: sqlite3.Connection, table: str, columns: str, condition: str, values: tuple[object, ...]) -> None:
    """Recompute the digests of some rows after a statement has changed the rows."""
    connection.execute(
        f"UPDATE {table} SET {COLUMN} = {_SQL_FUNCTION}({columns}) WHERE {COLUMN} IS NOT NULL AND {condition}", values
    )
