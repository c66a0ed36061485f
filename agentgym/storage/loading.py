"""Loads episodes from the tables of a ledger: the same for the process that writes it and for those that only read."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path

from agentgym.errors import LedgerError
from agentgym.storage import pictures
from agentgym.storage.codec import TurnRow, unpack_head, unpack_turn
from agentgym.trajectory import Row, Trajectory

TABLES = {"meta", "episode", "turn"}
"""What every ledger has."""


def load_episode(connection: sqlite3.Connection, path: Path, episode_id: str) -> Trajectory:
    """Return the record of an episode by id; one that is unfinished has no stop reason, so is not valid.

    Raises: LedgerError when there is none, or when a part of it is missing or damaged; sqlite3.Error.
    """
    connection.execute("BEGIN")  # one moment for the head and the turns, whatever is being written
    try:
        row = connection.execute(
            "SELECT key, turns, head, prompt_ids FROM main.episode WHERE id = ?", (episode_id,)
        ).fetchone()
        if row is None:
            raise LedgerError(f"{path} holds no episode {episode_id!r}. Its ids are <label>/<task id>#<sample>.")
        return unpack_episode(connection, path, episode_id, *row)
    finally:
        connection.execute("COMMIT")


def unpack_episode(
    connection: sqlite3.Connection,
    path: Path,
    episode_id: str,
    key: int,
    turns: int | None,
    head: str,
    prompt_ids: bytes,
) -> Trajectory:
    """Return an episode from its row and the rows of its turns. `turns`: how many it must have, None while it is
    unfinished.

    Raises: as `load_episode`.
    """
    rows: list[TurnRow] = connection.execute(
        "SELECT head, token_ids, logprobs, observation_ids FROM main.turn WHERE episode = ? ORDER BY number", (key,)
    ).fetchall()
    fetch = partial(pictures.fetch, connection)
    try:
        trajectory = unpack_head(head, prompt_ids, fetch)
        trajectory.turns = [unpack_turn(row, fetch) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"{path}: the episode {episode_id!r} is damaged: {error!r}.") from error
    if turns is None:  # rows that began since the head was written are not in it
        rows_begun = max((turn.row for turn in trajectory.turns), default=0)
        trajectory.further_rows += [Row() for _ in range(rows_begun - len(trajectory.further_rows))]
    elif [turn.index for turn in trajectory.turns] != list(range(turns)):
        raise LedgerError(
            f"{path}: the episode {episode_id!r} should have {turns} turns, but {len(rows)} are there. The file "
            "is damaged: restore a copy, or delete the file and run again."
        )
    return trajectory
