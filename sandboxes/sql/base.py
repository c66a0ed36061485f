"""The base of the sandboxed SQL environments: a database in a sandbox, and the results that the agent has seen."""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar

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
from agentgym.sandbox import Sandbox

from .database import LOOKUPS, STATEMENTS, database_of, shown_schema
from .limits import SqlLimits

FILE = "database.sqlite"
MAX_JUDGED_ROWS = 10_000


class SqlEnvironment(Environment, ABC):
    """A database in a sandbox, and tools that show its tables. Subclasses add other tools, and an engine.

    Args:
        limits: fields of `SqlLimits`, such as `max_rows=50` or `memory_mib=2048`.
    """

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=32, preload=("json", "re", "sqlite3"))
    system = "Answer by SQL."

    disk_per_byte: ClassVar[float] = 1.0  # disk bytes per byte of the database's file
    has_statements: ClassVar[bool] = True  # the engine can show the statements that create its tables
    memory_per_byte: ClassVar[float] = 1.0  # includes the sandbox's files, which are in memory

    def __init__(self, **limits: Any) -> None:
        self.limits = SqlLimits(**limits)
        self._database: GuestObject | None = None
        self._holder: tuple[SandboxSpec, Sandbox] | None = None  # the sandbox with the file
        self._observed = ObservedState()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Put the task's database into a fresh sandbox. Raises: TaskError if there is no such database."""
        system, method = self.system, shown_schema(task, has_statements=self.has_statements)
        content = await asyncio.to_thread(database_of, task)
        self._observed = ObservedState(hashlib.sha256(content).hexdigest())
        self._database = await self.open_database(content)
        if method is not None:
            system += "\n" + await self._ask(method)
        if method == STATEMENTS:
            self.tools = {name: each for name, each in self.tools.items() if name not in LOOKUPS}
        return [Message("system", system), *task.opening()]

    def spec_for(self, content: bytes) -> SandboxSpec:
        """Return the spec of a sandbox that has room for a database of this size."""
        assert self.sandbox is not None
        return self.limits.spec(
            self.sandbox, len(content), disk_per_byte=self.disk_per_byte, memory_per_byte=self.memory_per_byte
        )

    async def sandbox_with(self, content: bytes) -> Sandbox:
        """Return a sandbox that holds only the database's file: the last reset's sandbox if it has enough room."""
        spec = self.spec_for(content)
        if self._holder is not None and self._holder[0] != spec:
            await self._holder[1].close()
            self._holder = None
        if self._holder is None:
            self._holder = (spec, await self.open_sandbox(spec))
        else:
            await self._holder[1].reset()
        await self._holder[1].write(FILE, content)
        return self._holder[1]

    @abstractmethod
    async def open_database(self, content: bytes) -> GuestObject:
        """Put an SQLite file into a fresh sandbox. Returns: the engine that answers questions about it there."""

    @tool(parallel=False)
    async def tables(self) -> str:
        """List the tables."""
        return self._observed.add(await self._ask("tables"))

    @tool(parallel=False)
    async def describe(self, table: str) -> str:
        """Show a table's columns."""
        return self._observed.add(await self._ask("describe", table))

    async def rows(self, sql: str) -> dict[str, Any]:
        """Return the result of a query as plain data. For judges; not a tool.

        Returns: `rows`, at most 10,000 lists of values; `more`, whether there are further rows; `steps`, the engine's
            steps, None if it does not count them; `columns`, the number of columns of the result.
        Raises: ToolError with the engine's message.
        """
        answer: dict[str, Any] = await self._ask("rows", sql, MAX_JUDGED_ROWS)
        return answer

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """Send one request to the engine. Raises: ToolError if it refuses; SandboxDied if it does not answer."""
        if self._database is None:
            raise SandboxError("The SQL environment was used before reset. Call reset first.")
        try:
            return await self._database.call(method, *arguments)
        except GuestStopped as error:
            raise ToolError("The query used too much time or memory and was stopped. Ask for less.") from error
