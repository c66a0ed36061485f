"""What the sandboxed SQL environments share: a database in a sandbox, and what the agent has seen of it."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from typing import Any

from agentgym import (
    Environment,
    GuestObject,
    GuestStopped,
    Message,
    ObservedState,
    SandboxError,
    SandboxSpec,
    Task,
    ToolError,
    tool,
)

from .database import database_of

MAX_ROWS, MAX_CHARS, QUERY_S = 20, 2_000, 2.0
FILE = "database.sqlite"
MAX_JUDGED_ROWS = 10_000


class SqlEnvironment(Environment, ABC):
    """A database in a sandbox, and the tools to see what tables it has. Subclasses add the others, and an engine."""

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=32, preload=("json", "re", "sqlite3"))
    system = "Answer by SQL."

    def __init__(self) -> None:
        self._database: GuestObject | None = None
        self._observed = ObservedState()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Put the task's database into a fresh sandbox. Raises: TaskError if there is no such database."""
        content = await asyncio.to_thread(database_of, task)
        self._observed = ObservedState(hashlib.sha256(content).hexdigest())
        self._database = await self.open_database(content)
        system = self.system
        if task.parameters.get("show_schema"):
            system += "\n" + await self._ask("schema")
        return [Message("system", system), *task.opening()]

    @abstractmethod
    async def open_database(self, content: bytes) -> GuestObject:
        """Bring an SQLite file into a fresh sandbox. Returns: the engine that answers questions about it there."""

    @tool(parallel=False)
    async def tables(self) -> str:
        """List the tables."""
        return self._observed.add(await self._ask("tables"))

    @tool(parallel=False)
    async def describe(self, table: str) -> str:
        """Show a table's columns."""
        return self._observed.add(await self._ask("describe", table))

    async def rows(self, sql: str) -> dict[str, Any]:
        """For judges, no tool: what a query gives, as plain data.

        Returns: `rows`, at most 10,000 lists of values; `more`, whether there are others; `steps` that the engine
            took, None where it does not count them.
        Raises: ToolError with what the engine refused.
        """
        answer: dict[str, Any] = await self._ask("rows", sql, MAX_JUDGED_ROWS)
        return answer

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """One request to the engine. Raises: ToolError with what it refused; SandboxDied if it gives no answer."""
        if self._database is None:
            raise SandboxError("The SQL environment was used before reset.")
        try:
            return await self._database.call(method, *arguments)
        except GuestStopped as error:
            raise ToolError("The query used too much time or memory and was stopped. Ask for less.") from error
