"""`agentgym/sql-write-v1`: an SQLite database that the agent may change, judged by what is in it at the end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, tool
from agentgym.errors import SandboxError
from agentgym.sandbox import Sandbox

from .database import database_of
from .guest_link import GuestLink
from .knowledge import Knowledge
from .world import FILE, MAX_CHARS, MAX_JUDGED_ROWS, MAX_ROWS, QUERY_S


class WritingWorld(Environment):
    """A database in a sandbox that the agent may change. Not isolated: who may change what within the database.

    BEGIN, COMMIT, ROLLBACK and SAVEPOINT are statements like any other; without BEGIN each is committed at once. What
    is not committed when the episode ends is rolled back. Subclasses may put another engine into `place`.
    """

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=64, preload=("json", "re", "sqlite3"))
    reward = "sql_state"
    system = "Change the database as asked, by SQL, then finish. What is not committed then is lost."

    def __init__(self) -> None:
        self._machine: Sandbox | None = None
        self._guest: GuestLink | None = None
        self._known = Knowledge("")
        self._committed: list[str] = []  # statements whose effect stands
        self._pending: list[str] = []  # statements of the open transaction
        self._state = ""  # hash of what is committed
        self._unsure = False  # a statement was cut off, and may or may not have had its effect
        self._order = asyncio.Lock()  # bookkeeping belongs to its statement, also with parallel calls

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Put the task's database into a fresh sandbox. Raises: TaskError if there is no such database."""
        content = await asyncio.to_thread(database_of, task)
        self._known = Knowledge(hashlib.sha256(content).hexdigest())
        self._guest = await self.place(content)
        self._committed, self._pending, self._state = [], [], await self._ask("state")
        self._unsure = False
        system = self.system
        if task.parameters.get("show_schema"):
            system += "\n" + await self._ask("schema")
        return [Message("system", system), *task.opening()]

    async def place(self, content: bytes) -> GuestLink:
        """Bring an SQLite file into a fresh sandbox. Returns: who serves it there."""
        if self._machine is None:
            self._machine = await self.open_sandbox()
        else:
            await self._machine.reset()
        await self._machine.write(FILE, content)
        maker = f"guest.WritableDatabase.of_file({FILE!r}, {MAX_ROWS}, {MAX_CHARS}, {QUERY_S})"
        return GuestLink(self._machine, ["guest", "guest_state", "guest_write"], maker)

    @tool
    async def tables(self) -> str:
        """List the tables."""
        return self._known.add(await self._ask("tables"))

    @tool
    async def describe(self, table: str) -> str:
        """Show a table's columns."""
        return self._known.add(await self._ask("describe", table))

    @tool
    async def execute(self, sql: str) -> str:
        """Run one SQL statement: SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, BEGIN, COMMIT, ROLLBACK."""
        async with self._order:
            return self._known.add(await self._execute(sql))

    @tool(final=True)
    async def finish(self, answer: str = "") -> str:
        """End the work; give the answer if a question was asked."""
        async with self._order:
            await self._ask("rollback")
            return f"Finished. State {await self._ask('state')}."

    async def state_after(self, statements: Sequence[str]) -> str:
        """For judges, no tool: the state that `finish` tells once these statements were run.

        Raises: ToolError if one is refused.
        """
        for statement in statements:
            await self._execute(statement)
        await self._ask("rollback")
        return str(await self._ask("state"))

    async def rows(self, sql: str) -> dict[str, Any]:
        """For judges, no tool: what a query gives, as `rows` of `agentgym/sql-query-v1` does. Raises: ToolError."""
        found: dict[str, Any] = await self._ask("rows", sql, MAX_JUDGED_ROWS)
        return found

    async def state_key(self) -> str | None:
        """Hash of what is committed, of the open transaction's statements, and of the results seen, in any order."""
        return self._known.key(self._state, *self._pending)

    async def checkpoint(self) -> Checkpoint | None:
        """The statements whose effect stands, those of the open transaction, and the results seen.

        None once a statement was cut off from outside: what it has done is not known.
        """
        if self._unsure:
            return None
        return Checkpoint({**self._known.data(), "committed": [*self._committed], "pending": [*self._pending]})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Run the checkpoint's statements on a fresh copy: the same statements give the same database."""
        await self.reset(task, seed=seed)
        for statement in checkpoint.data["committed"]:
            await self._execute(statement)
        for statement in checkpoint.data["pending"]:
            with suppress(ToolError):  # the one by which a transaction failed
                await self._execute(statement)
        self._known.restore(checkpoint.data)

    async def _execute(self, sql: str) -> str:
        losses = self._guest.losses if self._guest else 0
        try:
            reply = await self._ask("execute", sql)
        except asyncio.CancelledError:
            self._unsure, self._pending = True, []  # the session is gone, and an open transaction with it
            raise
        except ToolError:
            lost = self._guest is not None and self._guest.losses != losses
            how = "" if lost or not self._pending else await self._ask("is_open")
            if not how:
                self._pending = []  # the engine, or its end, has rolled the transaction back
            elif how == "broken":
                self._pending.append(sql)
            raise
        if self._unsure and not reply["open"]:
            self._state = await self._ask("state")
        if reply["open"]:
            if reply["wrote"]:
                self._pending.append(sql)
        elif reply["wrote"]:
            if not reply["undone"]:
                self._committed += [*self._pending, sql]
                self._state = await self._ask("state")
            self._pending = []
        return str(reply["text"])

    async def _ask(self, method: str, *arguments: Any) -> Any:
        """One request to the guest. Raises: ToolError with what it refused; SandboxDied if it talks nonsense."""
        if self._guest is None:
            raise SandboxError("The SQL environment was used before reset.")
        return await self._guest.ask(method, *arguments)


class SqlWrite(WritingWorld):
    """Changes to an SQLite database, with transactions, in a sandbox. Not isolated: who may change what in the file.

    Task parameters as of `agentgym/sql-v1`. The state that `finish` tells is judged: it hashes what every table holds.
    """
