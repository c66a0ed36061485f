"""One episode in one narrow row: what a list of a hundred thousand of them is sorted, filtered and counted by."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from typing import Any

from agentgym.episode.trajectory import Trajectory

SCHEMA = """
CREATE TABLE IF NOT EXISTS {where}summary (
    episode INTEGER PRIMARY KEY,  -- its key
    id TEXT NOT NULL,
    run TEXT NOT NULL,            -- what stands before the task in the id, as `train-000012`
    task TEXT NOT NULL,
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
    problems TEXT                 -- JSON: how many calls or turns went wrong, by kind; NULL for none
);
"""
COLUMNS = (
    "episode", "id", "run", "task", "sample", "environment", "split", "stop", "success", "reward", "turns", "calls",
    "calls_ok", "tokens", "duration_s", "problems",
)  # fmt: skip
WRITE = f"INSERT OR REPLACE INTO {{where}}summary VALUES ({', '.join('?' * len(COLUMNS))})"


def summary_row(key: int, trajectory: Trajectory) -> tuple[Any, ...]:
    """The row of an episode, finished or not, in order of COLUMNS.

    Its problems are result statuses other than `ok`, and `void` for a turn that neither spoke nor held a call that
    could be run.
    """
    task, stop = trajectory.task, trajectory.stop_reason
    results = [result for turn in trajectory.turns for result in turn.results]
    problems = Counter(result.status.value for result in results if not result.ok)
    for turn in trajectory.turns:
        spoke = not turn.calls and turn.message.content and turn.finish_reason != "length"
        problems["void"] += turn.void and not spoke
    problems = +problems
    return (
        key, trajectory.id, trajectory.id.removesuffix(f"/{task.id}#{trajectory.sample}"), task.id, trajectory.sample,
        task.environment, task.split, None if stop is None else stop.value, trajectory.success,
        trajectory.return_from(), len(trajectory.turns), len(results), sum(result.ok for result in results),
        sum(len(turn.token_ids) for turn in trajectory.turns), trajectory.duration_s,
        json.dumps(problems) if problems else None,
    )  # fmt: skip


def create(connection: sqlite3.Connection, where: str = "") -> None:
    """Make the table, if it is not there; `where` is the name of an attached database with a dot."""
    connection.execute(SCHEMA.format(where=where))
