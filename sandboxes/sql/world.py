"""What the reading SQL environments share: a database in a sandbox, a guest to ask, and what the agent has seen."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, tool
from agentgym.errors import SandboxError
from agentgym.sandbox import Sandbox

from .database import database_of
from .guest_link import GuestLink
from .knowledge import Knowledge

MAX_ROWS, MAX_CHARS, QUERY_S = 20, 2_000, 2.0
FILE = "database.sqlite"
MAX_JUDGED_ROWS = 10_000


class ReadingWorld(Environment):
    """A read-only SQLite database in a sandbox. Not isolated: who can read what within the file.

    Subclasses add the tool that ends the episode, and may put another engine into `place`.
    """

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
        if self._machine is None:
            self._machine = await self.open_sandbox()
        else:
            await self._machine.reset()
        self._guest = await self.place(self._machine, content)
        system = self.system
        if task.parameters.get("show_schema"):
            system += "\n" + await self._ask("schema")
        return [Message("system", system), *task.opening()]

    async def place(self, machine: Sandbox, content: bytes) -> GuestLink:
        """Bring an SQLite file into the sandbox. Returns: who answers questions about it there."""
        await machine.write(FILE, content)
        return GuestLink(machine, ["guest"], f"guest.Database.of_file({FILE!r}, {MAX_ROWS}, {MAX_CHARS}, {QUERY_S})")

    @tool
    async def tables(self) -> str:
        """List the tables."""
        return self._known.add(await self._ask("tables"))

    @tool
    async def describe(self, table: str) -> str:
        """Show a table's columns."""
        return self._known.add(await self._ask("describe", table))

    @tool
    async def query(self, sql: str) -> str:
        """Run one SELECT."""
        return self._known.add(await self._ask("query", sql))

    async def rows(self, sql: str) -> dict[str, Any]:
        """For judges, no tool: what a query gives, as plain data.

        Returns: `rows`, at most 10,000 lists of values; `more`, whether there are others; `steps` that the engine
            took, None where it does not count them.
        Raises: ToolError with what the engine refused.
        """
        if self._guest is None:
            raise SandboxError("The SQL environment was used before reset.")
        found: dict[str, Any] = await self._guest.ask("rows", sql, MAX_JUDGED_ROWS)
        return found

    async def state_key(self) -> str | None:
        """Hash of the database and of every result seen so far, in any order.

        The world never changes; what differs between two moments of an episode is what the agent knows.
        """
        return self._known.key()

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint(self._known.data())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        self._known.restore(checkpoint.data)

    async def _ask(self, method: str, *arguments: str) -> str:
        """One request to the guest. Raises: ToolError with what it refused; SandboxDied if it talks nonsense."""
        if self._guest is None:
            raise SandboxError("The SQL environment was used before reset.")
        text: str = await self._guest.ask(method, *arguments)
        return text
