"""`agentgym/sql-inprocess-v1`: text to SQL on SQLite in this process, for trusted data and policies."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from typing import Any

from agentgym import Checkpoint, Environment, Message, ObservedState, SandboxError, Task, ToolError, tool

from .base import MAX_JUDGED_ROWS
from .database import LOOKUPS, STATEMENTS, database_of, shown_schema
from .guest import Database, QueryRefused
from .limits import SqlLimits


class SqlInProcess(Environment):
    """Text to SQL on SQLite in the training process itself, read-only. Nothing is isolated by the kernel here.

    The engine and its guard are the same as in the sandbox: an authorizer that allows reading only, and limits on rows,
    characters, values and time (two seconds a query). There is no limit on memory (a query may sort gigabytes in its
    two seconds) or on processor time (a query blocks the event loop), and no second barrier if SQLite itself has a
    vulnerability. SQLite can also be attacked through the file: open only databases of your own. For
    policies that may be hostile use `agentgym/sql-query-v1`, with the same tools and the same tasks.

    Task parameters as for `agentgym/sql-v1`.

    Args:
        limits: fields of `SqlLimits`; those for a sandbox have no effect.
    """

    reward = "sql_execution"
    task_set = "sql/schemas-inprocess-v1"
    system = "Explore the database, then submit one SELECT that answers the question."

    def __init__(self, **limits: Any) -> None:
        self.limits = SqlLimits(**limits)
        self._database: Database | None = None
        self._observed = ObservedState()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Load the task's database into memory. Raises: TaskError if there is no such database."""
        await self._close_database()
        system, method = self.system, shown_schema(task)
        content = database_of(task)
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.deserialize(content)
        limits = self.limits
        self._database = Database(connection, limits.max_rows, limits.max_chars, limits.query_s, limits.max_columns)
        self._observed = ObservedState(hashlib.sha256(content).hexdigest())
        if method is not None:
            system += "\n" + getattr(self._database, method)()
        if method == STATEMENTS:
            self.tools = {name: each for name, each in self.tools.items() if name not in LOOKUPS}
        return [Message("system", system), *task.opening()]

    @tool(inline=True)
    def tables(self) -> str:
        """List the tables."""
        return self._observed.add(self._opened().tables())

    @tool(inline=True)
    def describe(self, table: str) -> str:
        """Show a table's columns."""
        return self._observed.add(_answer(self._opened().describe, table))

    @tool(inline=True)
    def query(self, sql: str) -> str:
        """Run one SELECT."""
        return self._observed.add(_answer(self._opened().query, sql))

    @tool(final=True, inline=True)
    def submit(self, sql: str) -> str:
        """Give the SELECT that answers the question."""
        return "Submitted."

    async def rows(self, sql: str) -> dict[str, Any]:
        """Return a result like `rows` of `agentgym/sql-query-v1`. For judges; not a tool. Raises: ToolError."""
        answer: dict[str, Any] = _answer(self._opened().rows, sql, MAX_JUDGED_ROWS)
        return answer

    async def state_key(self) -> str | None:
        """Return a hash of the database and of the set of results seen so far."""
        return self._observed.key()

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint(self._observed.data())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        self._observed.restore(checkpoint.data)

    async def close(self) -> None:
        await self._close_database()
        await super().close()

    async def _close_database(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _opened(self) -> Database:
        if self._database is None:
            raise SandboxError("The SQL environment was used before reset, or after close.")
        return self._database


def _answer(method: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of the database. Raises: ToolError with the database's refusal."""
    try:
        return method(*arguments)
    except QueryRefused as refusal:
        raise ToolError(str(refusal)) from refusal
