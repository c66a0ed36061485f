"""Load episodes from the tables of a ledger, both for the writing process and for readers."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentgym.errors import LedgerError
from agentgym.storage import digests, pictures
from agentgym.storage.codec import TurnRow, unpack_head, unpack_turn
from agentgym.trajectory import Row
from agentgym.trajectory.record import Trajectory

TABLES = {"meta", "episode", "turn"}
"""The tables of every ledger."""
_EPISODE = ("key", "id", "turns", "head", "prompt_ids", "awaits_group")
_TURN = ("episode", "number", "head", "token_ids", "logprobs", "observation_ids")


def episode_columns(connection: sqlite3.Connection) -> str:
    """Return the columns to select for `unpack_episode`; a column that an old ledger lacks is NULL."""
    return _columns(connection, "episode", _EPISODE)


def _columns(connection: sqlite3.Connection, table: str, names: tuple[str, ...]) -> str:
    present = {row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")}
    return ", ".join(name if name in present else f"NULL AS {name}" for name in (*names, digests.COLUMN))


def load_episode(connection: sqlite3.Connection, path: Path, episode_id: str) -> Trajectory:
    """Return the record of an episode by id; an unfinished episode has no stop reason, so is not valid.

    Raises: LedgerError if there is no such episode, or if a part of it is missing or damaged; sqlite3.Error.
    """
    connection.execute("BEGIN")  # read the head and the turns consistently during writes
    try:
        row = connection.execute(
            f"SELECT {episode_columns(connection)} FROM main.episode WHERE id = ?", (episode_id,)
        ).fetchone()
        if row is None:
            raise LedgerError(f"{path} has no episode {episode_id!r}. Write an id as <label>/<task id>#<sample>.")
        return unpack_episode(connection, path, row)
    finally:
        connection.execute("COMMIT")


def unpack_episode(connection: sqlite3.Connection, path: Path, row: Sequence[Any]) -> Trajectory:
    """Return an episode from its row, with the `episode_columns`, and the rows of its turns.

    In the row of an unfinished episode, the number of turns is NULL.
    Raises: as `load_episode`.
    """
    key, episode_id, turns, head, prompt_ids, awaits_group, digest = row
    what = f"the episode {episode_id!r}"
    digests.check_row(path, what, (key, episode_id, turns, head, prompt_ids, awaits_group), digest)
    turn_rows = connection.execute(
        f"SELECT {_columns(connection, 'turn', _TURN)} FROM main.turn WHERE episode = ? ORDER BY number", (key,)
    ).fetchall()
    for *values, turn_digest in turn_rows:
        digests.check_row(path, f"turn {values[1]} of {what}", values, turn_digest)
    rows: list[TurnRow] = [row[2:6] for row in turn_rows]
    fetch = partial(pictures.fetch, connection)
    try:
        trajectory = unpack_head(head, prompt_ids, fetch)
        trajectory.turns = [unpack_turn(row, fetch) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"{path}: the episode {episode_id!r} is damaged: {error!r}.") from error
    if turns is None:  # rows that begin after the head was written are not in it
        rows_begun = max((turn.row for turn in trajectory.turns), default=0)
        trajectory.further_rows += [Row() for _ in range(rows_begun - len(trajectory.further_rows))]
    elif [turn.index for turn in trajectory.turns] != list(range(turns)):
        raise LedgerError(
            f"{path} is damaged: the episode {episode_id!r} should have {turns} turns, but has {len(rows)}. Restore a "
            "copy, or delete the file and run again."
        )
    return trajectory
