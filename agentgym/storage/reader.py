"""Read a ledger without ever writing to it, even during a run: the source of pages and lists."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentgym.errors import LedgerError
from agentgym.storage import digests, summary
from agentgym.storage.loading import TABLES, episode_columns, load_episode, unpack_episode
from agentgym.trajectory.record import Trajectory

FILTERS = {
    "solved": "success >= 1",
    "unsolved": "success < 1 AND stop NOT IN ('infra_error', 'cancelled')",
    "truncated": "stop IN ('max_turns', 'max_tokens', 'max_calls', 'context_full', 'time', 'repeated_void', 'left')",
    "failed": "stop IN ('infra_error', 'cancelled')",
    "running": "stop IS NULL",
}
"""Filters for lists of episodes, each with its SQL condition."""
_PHASE = "rtrim(rtrim(run, '0123456789'), '-')"
_WRITTEN_TABLE, _MEMORY_TABLE = f"main.{summary.TABLE}", f"made.{summary.TABLE}"
MAX_WORDS = 200
"""The maximum number of tags or failures offered as filters: a task set may give every task its own tag."""
SORTS = ("episode", "task", "success", "reward", "turns", "tokens", "duration_s", "stop")


class LedgerReader:
    """A ledger opened read-only. Any number of readers may run while one process writes; safe to share among threads.

    Args:
        path: the path of the file, which must exist.
    Raises: LedgerError if the file is not a ledger.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._tables: list[str] = []  # names of the tables that hold summaries
        self._written = False  # whether the ledger's own table is one of them
        self._made_up_to = 0  # the last episode key that `summarise` has seen
        self._unreadable = 0  # how many episodes `summarise` skipped
        self._checked_up_to = 0  # the last key whose summary was compared with its digest
        self._facets: tuple[tuple[Any, ...], dict[str, dict[str, int]]] = ((), {})  # the last request and its result
        self._phases: tuple[tuple[int, int], dict[str, int]] = ((0, 0), {})  # last keys counted, and the counts
        self._connection = self._open()

    def close(self) -> None:
        """Close the file. May be called twice."""
        with self._lock:
            self._connection.close()

    def load(self, episode: str) -> Trajectory:
        """Return the record of an episode by id, with the turns stored so far.

        Raises: LedgerError if there is no such episode, or if a part of it is damaged.
        """
        with self._reading() as connection:
            return load_episode(connection, self.path, episode)

    def finished(self, prefix: str = "") -> list[str]:
        """Return the ids of the finished episodes whose id begins with `prefix`, sorted."""
        query = "SELECT id FROM main.episode WHERE turns IS NOT NULL AND substr(id, 1, ?) = ? ORDER BY id"
        with self._reading() as connection:
            return [row[0] for row in connection.execute(query, (len(prefix), prefix))]

    def summarise(self, budget_s: float = 0.25) -> int:
        """Make missing summaries, for ledgers that an earlier agentgym wrote. Returns: how many are still missing.

        The summaries are kept in memory. This works for about `budget_s` seconds: call it again until it returns 0.
        """
        deadline = time.monotonic() + budget_s
        with self._reading() as connection:
            written = f" AND key NOT IN (SELECT episode FROM {_WRITTEN_TABLE})" if self._written else ""
            have = sum(self._count(connection, table) for table in self._tables) + self._unreadable
            while have < self._count(connection, "main.episode"):  # otherwise nothing is missing
                rows = connection.execute(
                    f"SELECT {episode_columns(connection)} FROM main.episode "
                    f"WHERE key > ? AND turns IS NOT NULL{written} ORDER BY key LIMIT 64",
                    (self._made_up_to,),
                ).fetchall()
                if not rows:
                    return 0
                new_rows = [summary_row for row in rows if (summary_row := self._summary(connection, *row))]
                self._unreadable += len(rows) - len(new_rows)
                summary.write(connection, new_rows, "made.")
                self._made_up_to = rows[-1][0]
                if time.monotonic() > deadline:
                    query = f"SELECT count(*) FROM episode WHERE key > ? AND turns IS NOT NULL{written}"
                    return int(connection.execute(query, (self._made_up_to,)).fetchone()[0])
            return 0

    def count(self, where: Mapping[str, str] | None = None) -> int:
        """Count the episodes that have a summary and match `where`, as in `select`."""
        clause, values = _where(where or {})
        with self._reading() as connection:
            self._check_new_summaries(connection)
            return int(connection.execute(f"SELECT count(*) FROM known{clause}", values).fetchone()[0])

    def select(
        self,
        where: Mapping[str, str] | None = None,
        *,
        sort: str = "episode",
        descending: bool = False,
        offset: int = 0,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Return summaries of episodes as dicts by column (see agentgym.storage.summary).

        Args:
            where: any of `only` (a name in FILTERS); `phase` (see `phases`), `run`, `task`, `stop`, `tag` and
                `failure`, matched exactly; `text`, a substring of the id.
            sort: one of SORTS.
        Raises: LedgerError for an unknown filter or order.
        """
        if sort not in SORTS:
            raise LedgerError(f"Episodes cannot be sorted by {sort!r}. Choose one of: {', '.join(SORTS)}.")
        clause, values = _where(where or {})
        way = "DESC" if descending else "ASC"
        columns = ", ".join(summary.COLUMNS)
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {columns} FROM listed{clause} ORDER BY {sort} {way} NULLS LAST, episode {way} "
                "LIMIT ? OFFSET ?",
                (*values, limit, offset),
            ).fetchall()
            self._check_summaries(connection, [row[0] for row in rows])
        return [dict(zip(summary.COLUMNS, row, strict=True)) for row in rows]

    def facets(self, where: Mapping[str, str] | None = None) -> dict[str, dict[str, int]]:
        """Count the episodes that match `where`, for each value of the filters `only`, `failure` and `tag`.

        Tags are counted as if `where` named no tag, so that other tags can be chosen.
        """
        where = where or {}
        clause, values = _where(where)
        tagless = _where({name: value for name, value in where.items() if name != "tag"})
        sums = ", ".join(f"coalesce(sum({test}), 0)" for test in FILTERS.values())
        with self._reading() as connection:
            version = connection.execute("PRAGMA data_version").fetchone()[0]  # changes with every commit by others
            request = (version, self._made_up_to, clause, *values)
            if self._facets[0] != request:  # the next page of a list repeats the request
                self._check_new_summaries(connection)
                only = connection.execute(f"SELECT {sums} FROM known{clause}", values).fetchone()
                self._facets = (
                    request,
                    {
                        "only": dict(zip(FILTERS, only, strict=True)),
                        "failure": self._within(connection, "failures", clause, values),
                        "tag": self._within(connection, "tags", *tagless),
                    },
                )
            return self._facets[1]

    def phases(self) -> dict[str, int]:
        """Count episodes per phase, in the order the phases began.

        A phase is a run name without its step: `train` for `train-000012`.
        """
        with self._reading() as connection:
            self._check_new_summaries(connection)
            (counted_up_to, last), counts = self._phases
            if counted_up_to != self._made_up_to:  # older episodes were added since
                last, counts = 0, {}
            rows = connection.execute(
                f"SELECT {_PHASE}, count(*), max(episode) FROM known WHERE episode > ? "
                "GROUP BY 1 ORDER BY min(episode)",
                (last,),
            ).fetchall()
            counted = dict(Counter(counts) + Counter({phase: count for phase, count, _ in rows}))
            self._phases = (self._made_up_to, max([last, *(key for _, _, key in rows)])), counted
            return counted

    def _summary(self, connection: sqlite3.Connection, key: int, *columns: Any) -> tuple[Any, ...] | None:
        """Return the summary row of an episode; None if damaged. Lists omit it; opening it shows why."""
        try:
            trajectory = unpack_episode(connection, self.path, (key, *columns))
        except LedgerError:
            return None
        return summary.summary_row(key, trajectory)

    def _check_summaries(self, connection: sqlite3.Connection, keys: list[int]) -> None:
        """Raise LedgerError if the summary of one of these episodes does not match its digest."""
        query = "SELECT * FROM known WHERE episode IN (SELECT value FROM json_each(?))"
        self._check_digests(connection.execute(query, (json.dumps(keys),)))

    def _check_new_summaries(self, connection: sqlite3.Connection) -> None:
        """Raise LedgerError if a summary that was not yet counted does not match its digest."""
        query = "SELECT * FROM known WHERE episode > ? ORDER BY episode"
        for row in connection.execute(query, (self._checked_up_to,)):
            self._check_digests([row])
            self._checked_up_to = row[0]

    def _check_digests(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for *values, digest in rows:
            digests.check_row(self.path, f"the summary of {values[1]!r}", values, digest)

    def _within(
        self, connection: sqlite3.Connection, column: str, clause: str, values: Sequence[str]
    ) -> dict[str, int]:
        """Count the episodes per entry of a column of JSON lists, or per key of JSON objects, most frequent first."""
        counts: Counter[str] = Counter()
        known = f"{clause} AND" if clause else " WHERE"
        for text, count in connection.execute(
            f"SELECT {column}, count(*) FROM known{known} {column} IS NOT NULL GROUP BY 1", values
        ):
            counts.update(dict.fromkeys(json.loads(text), count))
        return dict(counts.most_common(MAX_WORDS))

    def _count(self, connection: sqlite3.Connection, table: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def _open(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise LedgerError(f"There is no ledger {self.path}.")
        uri = self.path.resolve().as_uri()
        try:
            try:
                return self._connected(f"{uri}?mode=ro")
            except sqlite3.OperationalError:  # SQLite may be unable to create its shared-memory file in the folder
                if self.path.with_name(self.path.name + "-wal").exists():
                    raise  # another process may be writing: the file alone would be incomplete
                return self._connected(f"{uri}?mode=ro&immutable=1")
        except sqlite3.Error as error:
            raise LedgerError(f"The ledger {self.path} cannot be read: {error}.") from error

    def _connected(self, uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables >= TABLES:
                raise LedgerError(f"{self.path} is not a ledger: its tables are {', '.join(sorted(tables)) or 'none'}.")
            connection.execute("PRAGMA cache_size = -32768")  # in KiB; keeps the summaries of a large run in memory
            connection.execute("ATTACH ':memory:' AS made")
            summary.create(connection, "made.")
        except BaseException:
            connection.close()
            raise
        return connection

    def _see(self, connection: sqlite3.Connection) -> None:
        """Recreate the views if the set of tables with summaries has changed.

        `known`: all summaries, from a single table if possible, which is faster to scan. `listed`: the same, with the
        turns so far of unfinished episodes.
        """
        tables = [_WRITTEN_TABLE] if self._written or self._has_summaries() else []
        tables += [_MEMORY_TABLE] if self._made_up_to or not tables else []
        if tables == self._tables:
            return
        self._tables, self._written = tables, _WRITTEN_TABLE in tables
        for view in ("listed", "known"):
            connection.execute(f"DROP VIEW IF EXISTS temp.{view}")
        both = " UNION ALL ".join(f"SELECT * FROM {table}" for table in tables)
        connection.execute(f"CREATE TEMP VIEW known AS {both}")
        so_far = "CASE WHEN stop IS NULL THEN (SELECT count(*) FROM main.turn WHERE turn.episode = known.episode) "
        columns = ", ".join(f"{so_far}ELSE turns END AS turns" if c == "turns" else c for c in summary.COLUMNS)
        connection.execute(f"CREATE TEMP VIEW listed AS SELECT {columns} FROM known")

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._see(self._connection)
                yield self._connection
            except sqlite3.Error as error:
                raise LedgerError(f"The ledger {self.path} cannot be read: {error}.") from error

    def _has_summaries(self) -> bool:
        """Return whether the ledger has summaries; one from an earlier agentgym gets them when its run resumes."""
        query = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?"
        return self._connection.execute(query, (summary.TABLE,)).fetchone() is not None


def _where(choice: Mapping[str, str]) -> tuple[str, list[str]]:
    tests, values = [], []
    for name, value in choice.items():
        if name == "only":
            if value not in FILTERS:
                raise LedgerError(
                    f"Episodes cannot be selected by only = {value!r}. Choose one of: {', '.join(FILTERS)}."
                )
            tests.append(f"({FILTERS[value]})")
            continue
        test = {
            "phase": f"{_PHASE} = ?",
            "run": "run = ?",
            "task": "task = ?",
            "stop": "coalesce(stop, '') = ?",
            "text": "instr(lower(id), lower(?)) > 0",
            "failure": "json_extract(failures, '$.' || json_quote(?)) > 0",
            "tag": "EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)",
        }.get(name)
        if test is None:
            raise LedgerError(
                f"Episodes cannot be selected by {name!r}. Choose one of: only, phase, run, task, stop, text, "
                "failure, tag."
            )
        tests.append(test)
        values.append(value)
    return (" WHERE " + " AND ".join(tests) if tests else ""), values
