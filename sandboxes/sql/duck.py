"""`agentgym/sql-duckdb-v1`: text to SQL on DuckDB, embedded, inside the sandbox."""

from __future__ import annotations

from importlib.util import find_spec

from agentgym import GuestModule, GuestObject, Message, MissingExtraError, SandboxSpec, Task, install_command, tool

from .base import FILE
from .limits import MIB
from .reading import ReadOnlySqlEnvironment

MEMORY_MB = 128  # memory for DuckDB itself; a large database needs more
ENGINE = GuestModule(__package__, "guest", "guest_source", "guest_duckdb")


class SqlDuckDb(ReadOnlySqlEnvironment):
    """Text to SQL on DuckDB in a sandbox, read-only. Not isolated: SQL can read every table.

    DuckDB itself is locked down: no files, no extensions, no settings, one thread, 128 MB. Task parameters as for
    `agentgym/sql-v1`; an SQLite database is copied table by table, without its views. Needs the extra `sql`.
    """

    sandbox = SandboxSpec(
        memory_mib=512, processes=24, disk_mib=64, preload=("json", "re", "sqlite3", "csv", "threading", "duckdb")
    )
    disk_per_byte = 3.0  # the file, and one table as text
    memory_per_byte = 8.0  # both files and DuckDB's own tables are in memory
    has_statements = False
    reward = "sql_execution"
    task_set = "sql/schemas-duckdb-v1"
    system = "Explore the DuckDB database, then submit one SELECT that answers the question."

    async def open_database(self, content: bytes) -> GuestObject:
        """Return DuckDB, filled from the file."""
        sandbox, limits = await self.sandbox_with(content), self.limits
        guest_limits = (limits.max_rows, limits.max_chars, limits.query_s, MEMORY_MB + 4 * len(content) // MIB)
        return ENGINE.object(sandbox, "DuckDatabase", FILE, *guest_limits, timeout_s=limits.wall_s(len(content)))

    @tool(final=True, inline=True)
    def submit(self, sql: str) -> str:
        """Give the SELECT that answers the question."""
        return "Submitted."

    @classmethod
    def unavailable_reason(cls) -> str:
        return "" if find_spec("duckdb") else f"It needs the package duckdb: {install_command('sql')}."

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Reset as `agentgym/sql-query-v1` does. Raises: MissingExtraError without the extra `sql`."""
        if reason := self.unavailable_reason():
            raise MissingExtraError(f"agentgym/sql-duckdb-v1: {reason}")
        return await super().reset(task, seed=seed)
