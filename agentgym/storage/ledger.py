"""The record on disk: every finished turn is stored in one SQLite file before the next turn begins.

Write-ahead logging makes a commit survive `kill -9` of this process. After a power cut the last commits may
be missing, but the file is consistent. Turns that finish in the same pass of the event loop share one commit.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.errors import LedgerError
from agentgym.messages import ImagePart
from agentgym.storage import digests, identity, ledger_schema, pictures, summary
from agentgym.storage.codec import pack_head, pack_turn
from agentgym.storage.ledger_errors import NamedErrors
from agentgym.storage.loading import episode_columns, load_episode, unpack_episode
from agentgym.trajectory import Provenance
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

_BUSY_TIMEOUT_S = 5.0
_WRITE_TURN = (
    "INSERT OR REPLACE INTO turn (episode, number, head, token_ids, logprobs, observation_ids, digest) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_WRITE_EPISODE = (
    "INSERT OR REPLACE INTO episode (key, id, turns, head, prompt_ids, awaits_group, digest) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_EPISODE_VALUES = "key, id, turns, head, prompt_ids, awaits_group"


class Ledger:
    """Episodes and their turns in one file. One process writes it; any number may read.

    Args:
        path: the path of the file; missing files and folders are created.
    Raises: LedgerError if the file is not a ledger, has another version, is damaged, locked, or cannot be created.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._turns: list[tuple[Any, ...]] = []
        self._begun: list[tuple[Any, ...]] = []
        self._ended: list[tuple[Any, ...]] = []
        self._summaries: list[tuple[Any, ...]] = []
        self._images: list[ImagePart] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop in which a commit is scheduled
        self._written: dict[str, int] = {}  # turns stored so far, per unfinished episode begun here
        self._connection = self._open()
        self._keys: dict[str, int] = {}  # keys of the unfinished episodes
        with self._errors_name_the_file("read"):
            self._columns = episode_columns(self._connection)
            for row in self._connection.execute(f"SELECT {self._columns} FROM episode WHERE turns IS NULL"):
                digests.check_row(self.path, f"the unfinished episode {row[1]!r}", row[:-1], row[-1])
                self._keys[row[1]] = row[0]
            self._next_key = self._connection.execute("SELECT coalesce(max(key), 0) + 1 FROM episode").fetchone()[0]

    @property
    def identity(self) -> str:
        """A unique id of this ledger. A later ledger at the same path has a different id."""
        with self._errors_name_the_file("written"):
            # A ledger from before 0.3 has no id.
            self._connection.execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (uuid.uuid4().hex,))
            return str(self._connection.execute("SELECT value FROM meta WHERE name = 'identity'").fetchone()[0])

    def begin(self, trajectory: Trajectory) -> None:
        """Prepare for an episode that starts, or starts over: its next record replaces the stored one."""
        self._written.pop(trajectory.id, None)

    async def write_turn(self, trajectory: Trajectory, turn: Turn) -> None:
        """Store one finished turn of an episode in progress. Returns after the commit.

        Turn 0 starts the episode afresh: the turns of an interrupted attempt are deleted.
        Raises: LedgerError; ValueError when an earlier turn was not written.
        """
        expected = self._written.get(trajectory.id, 0)
        if turn.index not in (0, expected):
            raise ValueError(
                f"{trajectory.id!r}: turn {turn.index} cannot be written, because turn {expected} comes next."
            )
        if turn.index == 0:
            self._begin(trajectory)
        key = self._keys[trajectory.id]
        self._turns.append(_with_digest(key, turn.index, *pack_turn(turn, self._images.append)))
        self._written[trajectory.id] = turn.index + 1
        await self._committed()

    async def finish(self, trajectory: Trajectory, *, awaits_group: bool = False) -> None:
        """Store the end of an episode, with its turns that are not stored yet. Returns after the commit.

        Args:
            awaits_group: whether a reward has yet to judge the episode with its group; `amend` stores the verdict.
        Raises: LedgerError; ValueError if the episode has not ended, and so has no stop reason.
        """
        if trajectory.stop_reason is None:
            raise ValueError(
                f"{trajectory.id!r} has no stop reason, so it is still in progress. Finish the episode before it is "
                "recorded as finished."
            )
        if trajectory.id not in self._written:
            self._begin(trajectory)
        key, done = self._keys[trajectory.id], self._written[trajectory.id]
        # The last turn is written again even if it is stored, because as the last turn it has no observation.
        first = min(done, len(trajectory.turns) - 1)
        turns = trajectory.turns[max(first, 0) :]
        rows = [_with_digest(key, turn.index, *pack_turn(turn, self._images.append)) for turn in turns]
        end = _with_digest(
            key,
            trajectory.id,
            len(trajectory.turns),
            *pack_head(trajectory, self._images.append),
            awaits_group or None,
        )
        self._turns += rows
        self._ended.append(end)
        self._summaries.append(summary.summary_row(key, trajectory))
        await self._committed()
        self._keys.pop(trajectory.id, None)
        self._written.pop(trajectory.id, None)

    def amend(self, trajectories: Sequence[Trajectory]) -> None:
        """Rewrite outcome, weights and stop reason of finished episodes, but not their turns; of all or of none.

        The episodes then no longer await the verdict on their group.
        Raises: LedgerError, also for an episode that is not finished in this ledger.
        """
        find = "SELECT key FROM episode WHERE id = ? AND turns IS NOT NULL"
        with self._errors_name_the_file("written"):
            keys = [row[0] for t in trajectories for row in self._connection.execute(find, (t.id,))]
            if len(keys) != len(trajectories):
                raise LedgerError(
                    f"{self.path} lacks {len(trajectories) - len(keys)} of these episodes, or they are not finished."
                )
            images: list[ImagePart] = []
            ended, summaries = [], []
            for key, trajectory in zip(keys, trajectories, strict=True):
                head = pack_head(trajectory, images.append)
                ended.append(_with_digest(key, trajectory.id, len(trajectory.turns), *head, None))
                summaries.append(summary.summary_row(key, trajectory))
            self._write([], [], ended, summaries, images)

    def claim(self, label: str, what_is_played: Mapping[str, Any], provenance: Provenance) -> None:
        """Store how the episodes of a label are played; if the label already has episodes, compare first.

        Args:
            what_is_played: names and values that the episodes depend on; see agentgym.storage.identity.
            provenance: the provenance of each new episode.
        Raises: DifferentRunError naming each difference; LedgerError.
        """
        with self._errors_name_the_file("written"):
            identity.claim(self._connection, self.path, label, what_is_played, provenance)

    def finished(self, label: str) -> set[str]:
        """Return the ids of a label's finished episodes."""
        return self._ids("turns IS NOT NULL", label)

    def awaiting_group(self, label: str) -> set[str]:
        """Return the ids of a label's finished episodes that still await the verdict on their group."""
        return self._ids("turns IS NOT NULL AND awaits_group = 1", label)

    def last_label(self, prefix: str = "") -> str | None:
        """Return the label of the finished episode that began last, among ids that begin with `prefix`."""
        with self._errors_name_the_file("read"):
            row = self._connection.execute(
                "SELECT id FROM episode WHERE turns IS NOT NULL AND substr(id, 1, ?) = ? ORDER BY key DESC LIMIT 1",
                (len(prefix), prefix),
            ).fetchone()
        return None if row is None else str(row[0]).partition("/")[0]

    def load(self, episode: str) -> Trajectory:
        """Return the record of an episode by id; an unfinished episode has no stop reason, so is not valid.

        Raises: LedgerError if there is no such episode, or if a part of it is missing or damaged.
        """
        with self._errors_name_the_file("read"):
            return load_episode(self._connection, self.path, episode)

    def trajectories(self, run_prefix: str = "") -> Iterator[Trajectory]:
        """Yield every finished episode whose id begins with `run_prefix`, in starting order."""
        last = 0
        while True:
            with self._errors_name_the_file("read"):  # page by page, so that no read stays open while others write
                rows = self._connection.execute(
                    f"SELECT {self._columns} FROM episode WHERE turns IS NOT NULL AND key > ? "
                    "AND substr(id, 1, ?) = ? ORDER BY key LIMIT 100",
                    (last, len(run_prefix), run_prefix),
                ).fetchall()
            if not rows:
                return
            for row in rows:
                with self._errors_name_the_file("read"):
                    trajectory = unpack_episode(self._connection, self.path, row)
                yield trajectory
            last = rows[-1][0]

    def relabel(self, label: str, new_label: str, *, only: Collection[str] | None = None) -> None:
        """Move the finished episodes of a label to a new label, so that the old one can be used again.

        Args:
            only: ids of the episodes to move; by default all of the label.
        Raises: LedgerError.
        """
        episodes = "SELECT key FROM episode WHERE turns IS NOT NULL AND id >= ? AND id < ?"
        bounds, cut = [f"{label}/", f"{label}0"], len(label) + 1
        if only is not None:
            episodes += " AND id IN (SELECT value FROM json_each(?))"
            bounds.append(json.dumps([*only]))
        renamed, table, connection = "? || substr(id, ?)", summary.TABLE, self._connection
        with self._errors_name_the_file("written"):
            connection.execute("BEGIN IMMEDIATE")
            try:
                summary.create(connection)
                keys = self._undamaged(f"SELECT {self._columns} FROM episode WHERE key IN ({episodes})", bounds)
                connection.execute(
                    f"UPDATE {table} SET id = {renamed}, run = ? || substr(run, ?) WHERE episode IN ({episodes})",
                    (new_label, cut, new_label, cut, *bounds),
                )
                connection.execute(
                    f"UPDATE episode SET head = json_set(head, '$.id', {renamed}), id = {renamed} "
                    f"WHERE key IN ({episodes})",
                    (new_label, cut, new_label, cut, *bounds),
                )
                digests.renew(
                    connection, "episode", _EPISODE_VALUES, "key IN (SELECT value FROM json_each(?))", (keys,)
                )
                summary.renew(connection, keys)
                identity.relabel(connection, label, new_label, keep=only is not None)
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def _undamaged(self, query: str, values: Sequence[Any]) -> str:
        """Return the keys of a query's episodes, as a JSON list. Raises: LedgerError if an episode is damaged."""
        rows = self._connection.execute(query, values).fetchall()
        for row in rows:
            digests.check_row(self.path, f"the episode {row[1]!r}", row[:-1], row[-1])
        return json.dumps([row[0] for row in rows])

    def set_aside(self, label: str, only: Collection[str] | None = None) -> None:
        """Move episodes of a label, all or `only` these ids, to a label for failed ones: they are then played again."""
        self.relabel(label, f"failed-{time.time_ns()}-{label}", only=only)

    def close(self) -> None:
        """Commit pending rows and close the file. May be called twice."""
        try:
            if self._turns or self._begun or self._ended:
                self._commit()
        finally:
            self._connection.close()

    def _ids(self, condition: str, label: str) -> set[str]:
        with self._errors_name_the_file("read"):
            rows = self._connection.execute(
                f"SELECT id FROM episode WHERE {condition} AND id >= ? AND id < ?",
                (f"{label}/", f"{label}0"),  # '0' is the character after '/'
            )
            return {row[0] for row in rows}

    def _begin(self, trajectory: Trajectory) -> None:
        key = self._keys.get(trajectory.id)
        if key is None:
            key = self._keys[trajectory.id] = self._next_key
            self._next_key += 1
        self._written[trajectory.id] = 0
        head = pack_head(trajectory, self._images.append)
        self._begun.append(_with_digest(key, trajectory.id, None, *head, None))
        self._summaries.append(summary.begun_row(key, trajectory))

    async def _committed(self) -> None:
        """Wait for the commit that ends this pass of the event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # no commit is scheduled, or it was scheduled in a loop that has ended
            self._loop = loop
            loop.call_soon(self._commit)
        done = loop.create_future()
        self._waiting.append(done)
        await done

    def _commit(self) -> None:
        waiting, self._waiting, self._loop = self._waiting, [], None
        begun, turns, ended, summaries = self._begun, self._turns, self._ended, self._summaries
        images, self._images = self._images, []
        self._begun, self._turns, self._ended, self._summaries = [], [], [], []
        failure: Exception | None = None
        try:
            with self._errors_name_the_file("written"):
                self._write(begun, turns, ended, summaries, images)
        except Exception as error:
            if not waiting:
                raise
            failure = error  # the waiting tasks must get any error
        for done in waiting:
            if done.done() or done.get_loop().is_closed():
                continue  # the episode was cancelled meanwhile
            if failure is None:
                done.set_result(None)
            else:  # one exception per task: a shared one would collect all their tracebacks
                own = LedgerError(*failure.args)
                own.__cause__ = failure.__cause__
                done.set_exception(own)

    def _write(
        self, begun: list[Any], turns: list[Any], ended: list[Any], summaries: list[Any], images: list[ImagePart]
    ) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            if begun:
                connection.executemany("DELETE FROM turn WHERE episode = ?", [row[:1] for row in begun])
                connection.executemany(_WRITE_EPISODE, begun)
            if turns:
                connection.executemany(_WRITE_TURN, turns)
            if ended:
                connection.executemany(_WRITE_EPISODE, ended)
            if summaries:
                summary.create(connection)  # missing in ledgers of an earlier agentgym
                summary.write(connection, summaries)
            if images:
                pictures.create(connection)
                pictures.write(connection, images)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _open(self) -> sqlite3.Connection:
        with self._errors_name_the_file("opened"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # The loop may run in another thread than the one that opened the file, but only one uses it at a time.
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                ledger_schema.prepare(connection, self.path)
            except BaseException:
                connection.close()
                raise
        return connection

    def _errors_name_the_file(self, what: str) -> NamedErrors:
        return NamedErrors(self.path, what)


def _with_digest(*values: Any) -> tuple[Any, ...]:
    """Return the row to write: the values and their digest."""
    return (*values, digests.digest_of(*values))
