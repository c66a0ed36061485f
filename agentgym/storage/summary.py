"""One narrow row per episode, for sorting, filtering and counting lists of a hundred thousand episodes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from agentgym.storage.digests import digest_of
from agentgym.storage.digests import renew as renew_digests
from agentgym.storage.failures import calls_of, count_failures
from agentgym.trajectory.record import Trajectory

TABLE = "summary_3"
"""The name of the table. The number in it grows when rows get other content: readers then make rows of their own."""
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS {{where}}{TABLE} (
    episode INTEGER PRIMARY KEY,  -- its key
    id TEXT NOT NULL,
    run TEXT NOT NULL,            -- what stands before the task in the id, as `train-000012`
    task TEXT NOT NULL,
    tags TEXT,                    -- JSON: of the task, in order of the alphabet; NULL for none
    sample INTEGER NOT NULL,
    environment TEXT NOT NULL,
    split TEXT NOT NULL,
    stop TEXT,                    -- stop reason, NULL until it is finished
    success REAL,                 -- NULL where it was not judged
    reward REAL NOT NULL,         -- outcome and turn rewards together
    turns INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    calls_ok INTEGER NOT NULL,
    tokens INTEGER NOT NULL,      -- written by the agent
    duration_s REAL NOT NULL,
    failures TEXT,                -- JSON: how often each kind of failure occurred (agentgym.storage.failures), or NULL
    digest INTEGER NOT NULL       -- of the other columns (agentgym.storage.digests)
);
"""
COLUMNS = (
    "episode",
    "id",
    "run",
    "task",
    "tags",
    "sample",
    "environment",
    "split",
    "stop",
    "success",
    "reward",
    "turns",
    "calls",
    "calls_ok",
    "tokens",
    "duration_s",
    "failures",
)
_WRITE = f"INSERT OR REPLACE INTO {{where}}{TABLE} VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"


def summary_row(key: int, trajectory: Trajectory) -> tuple[Any, ...]:
    """Return the row of a finished or unfinished episode, in order of COLUMNS."""
    stop, failures = trajectory.stop_reason, count_failures(trajectory)
    return (
        *_identity(key, trajectory),
        None if stop is None else stop.value,
        trajectory.success,
        trajectory.return_from(),
        len(trajectory.turns),
        *calls_of(trajectory),
        sum(len(turn.token_ids) for turn in trajectory.turns),
        trajectory.duration_s,
        json.dumps(failures) if failures else None,
    )


def begun_row(key: int, trajectory: Trajectory) -> tuple[Any, ...]:
    """Return the row of a new episode, of which only the task is known, in order of COLUMNS."""
    return (*_identity(key, trajectory), None, None, 0.0, 0, 0, 0, 0, 0.0, None)


def _identity(key: int, trajectory: Trajectory) -> tuple[Any, ...]:
    task = trajectory.task
    run = trajectory.id.removesuffix(f"/{task.id}#{trajectory.sample}")
    tags = json.dumps(sorted(set(task.tags))) if task.tags else None
    return key, trajectory.id, run, task.id, tags, trajectory.sample, task.environment, task.split


def create(connection: sqlite3.Connection, where: str = "") -> None:
    """Create the table if it is missing; `where` is the name of an attached database, with a trailing dot."""
    connection.execute(SCHEMA.format(where=where))


def write(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]], where: str = "") -> None:
    """Write rows, in order of COLUMNS, with their digests. `where`: as in `create`."""
    connection.executemany(_WRITE.format(where=where), ((*row, digest_of(*row)) for row in rows))


def renew(connection: sqlite3.Connection, keys: str) -> None:
    """Recompute the digests of some episodes' rows. `keys`: a JSON list of the episodes' keys."""
    renew_digests(connection, TABLE, ", ".join(COLUMNS), "episode IN (SELECT value FROM json_each(?))", (keys,))
