"""What the sandboxed SQL environments share: a database in a sandbox, a guest to ask, and what the agent has seen."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from agentgym import Environment, Message, SandboxSpec, Task, tool
from agentgym.errors import SandboxError
from agentgym.sandbox import Sandbox

from .database import database_of
from .guest_link import GuestLink
from .knowledge import Knowledge

MAX_ROWS, MAX_CHARS, QUERY_S = 20, 2_000, 2.0
FILE = "database.sqlite"
MAX_JUDGED_ROWS = 10_000


class SqlWorld(Environment):
    """A database in a sandbox, and the tools to see what tables it has. Subclasses add the others, and an engine."""

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=32, preload=("json", "re", "sqlite3"))
    system = "Answer by SQL."

    def __init__(self) -> None:
        self._machine: Sandbox | None = None
        self._guest: GuestLink | None = None
        self._known = Knowledge("")

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Put the task's database into a fresh sandbox. Raises: TaskError if there is no such database."""
        content = await asyncio.to_thread(database_of, task)
        self._known = Knowledge(hashlib.sha256(content).hexdigest())
        self._guest = await self.place(content)
        system = self.system
        if task.parameters.get("show_schema"):
            system += "\n" + await self._ask("schema")
        return [Message("system", system), *task.opening()]

    async def place(self, content: bytes) -> GuestLink:
        """Bring an SQLite file into a fresh sandbox. Returns: who answers questions about it there."""
        raise NotImplementedError(f"{type(self).__name__} has no engine: override `place`.")

    @tool
    async def tables(self) -> str:
        """List the tables."""
        return self._known.add(await self._ask("tables"))

    @tool
    async def describe(self, table: str) -> str:
        """Show a table's columns."""
        return self._known.add(await self._ask("describe", table))

    async def rows(self, sql: str) -> dict[str, Any]:
        """For judges, no tool: what a query gives, as plain data.

        Returns: `rows`, at most 10,000 lists of values; `more`, whether there are others; `steps` that the engine
            took, None where it does not count them.
        Raises: ToolError with what the engine refused.
        """
        found: dict[str, Any] = await self._ask("rows", sql, MAX_JUDGED_ROWS)
        return found

    async def _holding(self, content: bytes) -> Sandbox:
        """A sandbox with nothing but the SQLite file: the last task's, emptied, or a new one."""
        if self._machine is None:
            self._machine = await self.open_sandbox()
        else:
            await self._machine.reset()
        await self._machine.write(FILE, content)
        return self._machine

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """One request to the guest. Raises: ToolError with what it refused; SandboxDied if it talks nonsense."""
        if self._guest is None:
            raise SandboxError("The SQL environment was used before reset.")
        return await self._guest.ask(method, *arguments)
