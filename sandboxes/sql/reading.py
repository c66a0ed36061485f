"""SQL environments that an agent queries and cannot change: their state is the results that the agent has seen."""

from __future__ import annotations

from agentgym import Checkpoint, GuestModule, GuestObject, Task, tool

from .base import FILE, SqlEnvironment

ENGINE = GuestModule(__package__, "guest")


class ReadOnlySqlEnvironment(SqlEnvironment):
    """A read-only SQLite database in a sandbox. Not isolated: SQL can read every table.

    Subclasses add the tool that ends the episode, and may override `open_database` with another engine.
    """

    async def open_database(self, content: bytes) -> GuestObject:
        """Open the file itself with SQLite."""
        sandbox, limits = await self.sandbox_with(content), self.limits
        guest_limits = (limits.max_rows, limits.max_chars, limits.query_s, limits.max_columns)
        return ENGINE.object(sandbox, "Database.of_file", FILE, *guest_limits, timeout_s=limits.wall_s(0))

    @tool(parallel=False)
    async def query(self, sql: str) -> str:
        """Run one SELECT."""
        return self._observed.add(await self._ask("query", sql))

    async def state_key(self) -> str | None:
        """Return a hash of the database and of the set of results seen so far."""
        return self._observed.key()

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint(self._observed.data())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        self._observed.restore(checkpoint.data)
