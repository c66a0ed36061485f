"""The tables of a ledger: create them, check them when a file is opened, and upgrade them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agentgym.errors import LedgerError
from agentgym.storage import digests
from agentgym.storage.loading import TABLES

SCHEMA_VERSION = "1"
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE episode (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    turns INTEGER,              -- how many, NULL until it is finished
    head TEXT NOT NULL,
    prompt_ids BLOB NOT NULL,
    awaits_group INTEGER,       -- 1 while a finished episode waits for a reward that judges its whole group
    digest INTEGER              -- of the other columns, see agentgym.storage.digests
);
CREATE TABLE turn (             -- in the order of writing: a commit touches few pages
    episode INTEGER NOT NULL,
    number INTEGER NOT NULL,
    head TEXT NOT NULL,
    token_ids BLOB NOT NULL,
    logprobs BLOB NOT NULL,
    observation_ids BLOB NOT NULL,
    digest INTEGER,
    PRIMARY KEY (episode, number)
);
"""
_ADD_AWAITS_GROUP = """
BEGIN IMMEDIATE;
ALTER TABLE episode ADD COLUMN awaits_group INTEGER;
UPDATE episode SET awaits_group = 1
WHERE turns IS NOT NULL AND json_type(head, '$.provenance.group_pending') IS NOT NULL;
COMMIT;
"""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new ledger, or check an old ledger's tables and add missing columns.

    Raises: LedgerError if the file is not a ledger, has another version, or is damaged; sqlite3.Error.
    """
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and not tables >= TABLES:
        raise LedgerError(
            f"{path} is a SQLite file, but not a ledger (its tables are {', '.join(sorted(tables))}). Choose another "
            "path; this file was not changed."
        )
    if tables:
        version = dict(connection.execute("SELECT name, value FROM meta")).get("schema_version")
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"{path} is a ledger of version {version!r}, but this agentgym needs version {SCHEMA_VERSION!r}. Read "
                "it with the agentgym that wrote it, or choose another path."
            )
        digests.check_structure(connection, path)
    digests.teach(connection)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if tables:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(episode)")}
        if "awaits_group" not in columns:  # a ledger of before 0.2
            connection.executescript(_ADD_AWAITS_GROUP)
        for table in ("episode", "turn"):
            if not digests.has_digests(connection, table):  # a ledger of before 0.3
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {digests.COLUMN} INTEGER")
            elif "awaits_group" not in columns:
                connection.execute(f"UPDATE {table} SET {digests.COLUMN} = NULL")
    else:
        connection.executescript(
            f"BEGIN IMMEDIATE; {SCHEMA} INSERT INTO meta VALUES ('schema_version', '{SCHEMA_VERSION}'); COMMIT;"
        )
