"""`agentgym/sql-duckdb-v1`: text to SQL on DuckDB, embedded, inside the sandbox."""

from __future__ import annotations

from importlib.util import find_spec

from agentgym import Message, SandboxSpec, Task, tool
from agentgym.errors import MissingExtraError

from .guest_link import GuestLink
from .reading import ReadingWorld
from .world import FILE, MAX_CHARS, MAX_ROWS, QUERY_S


class SqlDuckDb(ReadingWorld):
    """Text to SQL on DuckDB in a sandbox, read-only. Not isolated: who can read what within the database.

    DuckDB itself is shut off: no files, no extensions, no settings, one thread, 128 MB. Task parameters as of
    `agentgym/sql-v1`; an SQLite database is taken over table by table, without its views. Needs the extra `sql`.
    """

    sandbox = SandboxSpec(
        memory_mib=512, processes=24, disk_mib=64, preload=("json", "re", "sqlite3", "csv", "threading", "duckdb")
    )
    reward = "sql_execution"
    system = "Explore the DuckDB database, then submit one SELECT that answers the question."

    async def place(self, content: bytes) -> GuestLink:
        """DuckDB, filled from the file."""
        maker = f"guest.DuckDatabase({FILE!r}, {MAX_ROWS}, {MAX_CHARS}, {QUERY_S})"
        return GuestLink(await self._holding(content), ["guest", "guest_source", "guest_duckdb"], maker, call_s=20.0)

    @tool(final=True, inline=True)
    def submit(self, sql: str) -> str:
        """Give the SELECT that answers the question."""
        return "Submitted."

    @classmethod
    def unavailable_reason(cls) -> str:
        return "" if find_spec("duckdb") else "It needs the package duckdb: pip install 'agentgym-core[sql]'."

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """As of `agentgym/sql-query-v1`. Raises: MissingExtraError without the extra `sql`."""
        if lacking := self.unavailable_reason():
            raise MissingExtraError(f"agentgym/sql-duckdb-v1: {lacking}")
        return await super().reset(task, seed=seed)
