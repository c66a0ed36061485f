"""Runs inside the sandbox: starts the PostgreSQL server on a prepared cluster, and serves it as the user `agent`.

Uses only the standard library. The agent's user owns the tables without being a superuser, so the server itself refuses
files, programs and settings. SQL that got past this would still be in a sandbox that holds only its own database.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

from .guest import EMPTY_TEXT, QueryRefused, cell
from .guest_state import state_of
from .guest_wire import Lost, PostgresConnection, ServerError

CLUSTER, SHIM, SOCKET = "cluster", "/work/no_sysv.so", "/work/.s.PGSQL.5432"
START_S, STATE_S = 20.0, 5.0
INTEGERS, REALS, BOOLEAN = {20, 21, 23, 26}, {700, 701, 1700}, 16
READING = ("SELECT", "SHOW", "EXPLAIN", "FETCH", "VALUES")
LISTING = (
    "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ({}) ORDER BY 1"
)
COLUMNS = """SELECT a.attname, format_type(a.atttypid, a.atttypmod), (
    SELECT ' -> ' || f.relname || '.' || g.attname FROM pg_constraint k JOIN pg_class f ON f.oid = k.confrelid
    JOIN pg_attribute g ON g.attrelid = k.confrelid AND g.attnum = k.confkey[1]
    WHERE k.contype = 'f' AND k.conrelid = a.attrelid AND k.conkey = ARRAY[a.attnum] LIMIT 1)
FROM pg_attribute a WHERE a.attrelid = format('public.%I', '{}')::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""


def start_server(binaries: str) -> None:
    """Start the server if it is not running, and wait until it answers. Raises: Lost if it does not."""
    if _runs():
        return  # the server may be recovering from a killed backend; a second server would ruin the cluster
    for left_over in (f"{CLUSTER}/postmaster.pid", SOCKET, f"{SOCKET}.lock"):
        if os.path.exists(left_over):
            os.unlink(left_over)
    with open("/work/server.log", "ab") as log:
        server = subprocess.Popen(
            [f"{binaries}/postgres", "-D", CLUSTER],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "LD_PRELOAD": SHIM},
            start_new_session=True,
        )
    deadline = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            PostgresConnection(SOCKET, "postgres", "world").close()
            return
        except Lost:
            time.sleep(0.01)
    with open("/work/server.log", "rb") as log:
        raise Lost(f"the PostgreSQL server did not start: {log.read()[-500:].decode('utf-8', 'replace')}")


def _runs() -> bool:
    """Return whether the process named in the cluster's lock file is a PostgreSQL server.

    Raises: OSError if /proc cannot be read.
    """
    try:
        with open(f"{CLUSTER}/postmaster.pid") as lock:
            pid = int(lock.readline())
        with open(f"/proc/{pid}/stat") as status:
            name, _, rest = status.read().partition("(")[2].rpartition(")")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return False
    return name == "postgres" and not rest.lstrip().startswith("Z")


class PostgresDatabase:
    """The agent's session, and the guest's own session, which reads the catalogue and the final state."""

    def __init__(self, binaries: str, max_rows: int, max_chars: int, timeout_s: float) -> None:
        self._binaries, self._max_rows, self._max_chars, self._timeout_s = binaries, max_rows, max_chars, timeout_s
        self._functions = False  # once functions exist, a SELECT may write
        self._connect()

    def _connect(self) -> None:
        start_server(self._binaries)
        deadline = time.monotonic() + START_S
        while True:
            try:
                self._agent = PostgresConnection(SOCKET, "agent", "world")
                self._guest = PostgresConnection(SOCKET, "postgres", "world")
                break
            except Lost:  # the server is recovering from a killed backend
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._agent.execute("SELECT setseed(0.5)")  # makes random() the same in every episode
        self._guest.execute("SET statement_timeout = '5s'")

    def tables(self) -> str:
        return ", ".join(self._names("'r','p','v','m'"))

    def describe(self, table: str) -> str:
        """Return the columns with their types and references."""
        known = {name.casefold(): name for name in self._names("'r','p','v','m'")}
        if table.casefold() not in known:
            raise QueryRefused(f"There is no table {table[:60]!r}. Tables: {self.tables()}.")
        rows = self._ask(COLUMNS.format(known[table.casefold()].replace("'", "''")))
        return ", ".join(f"{name} {kind}{link or ''}" for name, kind, link in rows)

    def schema(self) -> str:
        """Return every table with its columns, one line per table."""
        lines = []
        for name in self._names("'r','p','v','m'"):
            columns = self._ask(COLUMNS.format(name.replace("'", "''")))
            lines.append(f"{name}({', '.join(str(row[0]) for row in columns)})")
        return "\n".join(lines)

    def execute(self, sql: str) -> dict[str, object]:
        """Run one statement, as `WritableDatabase.execute` does. Raises: QueryRefused with the server's message."""
        reply = self._run(sql, self._max_rows + 1)
        if reply.too_long:
            raise QueryRefused("A row of the result is too long. Ask for less.")
        self._functions = self._functions or "FUNCTION" in reply.tag or reply.tag.startswith("DO")
        wrote = self._functions or not reply.tag.startswith(READING)
        text = self._lines(reply) if reply.columns is not None else f"Done. {reply.tag}."
        return {"text": text, "open": self._agent.status != "I", "wrote": wrote, "undone": reply.tag == "ROLLBACK"}

    def rows(self, sql: str, most: int) -> dict[str, object]:
        """Return, for judges, at most `most` rows as plain data, and whether there are more. Steps are not counted."""
        reply = self._run(sql, most + 1)
        if reply.columns is None or reply.too_long:
            raise QueryRefused("Nothing to compare: write one SELECT statement with rows of ordinary length.")
        kinds = [kind for _, kind in reply.columns]
        rows = [[_value(value, kind) for value, kind in zip(row, kinds)] for row in reply.rows[:most]]  # noqa: B905
        return {"rows": rows, "more": len(reply.rows) > most, "steps": None, "columns": len(kinds)}

    def is_open(self) -> str:
        """Return "" outside a transaction, "open" inside one, and "broken" inside a failed one."""
        return {"T": "open", "E": "broken"}.get(self._agent.status, "")

    def rollback(self) -> None:
        """Roll back the open transaction."""
        if self._agent.status != "I":
            self._run("ROLLBACK", 0)

    def state(self) -> str:
        """Return a hash of every table's committed content."""

        def tables() -> Iterator[tuple[str, list[str], Iterator[list[object]]]]:
            for name in self._names("'r'"):
                quoted = name.replace('"', '""')
                reply = self._guest.execute(f'SELECT * FROM public."{quoted}"', timeout_s=STATE_S)
                kinds = [kind for _, kind in reply.columns or ()]
                rows = ([_value(value, kind) for value, kind in zip(row, kinds)] for row in reply.rows)  # noqa: B905
                yield name, [column for column, _ in reply.columns or ()], rows

        try:
            return state_of(tables())
        except ServerError as error:
            raise QueryRefused(f"The final state cannot be read: {error}") from error

    def _run(self, sql: str, most: int):  # type: ignore[no-untyped-def]
        try:
            return self._agent.execute(sql, most, self._timeout_s)
        except ServerError as error:
            raise QueryRefused(self._explain(error)) from error
        except Lost as error:
            self._connect()
            raise QueryRefused(
                "The statement used too much time or memory, and the server ended the connection. An open transaction "
                "was rolled back. Ask for less."
            ) from error

    def _explain(self, error: ServerError) -> str:
        if error.code == "57014":
            return f"The statement took longer than {self._timeout_s:g} s and was stopped. Ask for less."
        hint = f" {error.hint[:200]}" if error.hint else ""
        if error.code == "42P01":
            hint = f" Tables: {self.tables()}."
        return f"PostgreSQL: {str(error)[:300]}.{hint}"

    def _lines(self, reply) -> str:  # type: ignore[no-untyped-def]
        lines: list[str] = []
        room = self._max_chars
        kinds = [kind for _, kind in reply.columns]
        for row in reply.rows:
            line = " | ".join(cell(_value(value, kind)) for value, kind in zip(row, kinds)) or EMPTY_TEXT  # noqa: B905
            if len(lines) == self._max_rows or len(line) > room:
                lines.append(f"[cut: only {len(lines)} rows are shown]" if lines else line[:room] + " [cut]")
                break
            lines.append(line)
            room -= len(line) + 1
        return "\n".join(lines) if lines else "[no rows]"

    def _names(self, kinds: str) -> list[str]:
        return [str(row[0]) for row in self._ask(LISTING.format(kinds))]

    def _ask(self, sql: str) -> list[list]:  # type: ignore[type-arg]
        try:
            reply = self._guest.execute(sql)
        except Lost:
            self._connect()
            reply = self._guest.execute(sql)
        return [[None if value is None else value.decode("utf-8", "replace") for value in row] for row in reply.rows]


def _value(raw, kind: int):  # type: ignore[no-untyped-def]
    """Return a value of a type, from its bytes: numbers as such, booleans as 1 and 0, others as the server's text."""
    if raw is None:
        return None
    text = raw.decode("utf-8", "replace")
    if kind in INTEGERS:
        return int(text)
    if kind in REALS:  # a sum of whole numbers is NUMERIC, and may have more digits than a float
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    return int(text == "t") if kind == BOOLEAN else text
