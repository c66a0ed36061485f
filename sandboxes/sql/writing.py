"""`agentgym/sql-write-v1`: an SQLite database that the agent may change, judged by its content at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agentgym import Checkpoint, GuestModule, GuestObject, Message, SandboxSpec, Task, ToolError, tool

from .base import FILE, SqlEnvironment

ENGINE = GuestModule(__package__, "guest", "guest_state", "guest_write")


class WritableSqlEnvironment(SqlEnvironment):
    """A database in a sandbox that the agent may change. Not isolated: SQL can change every table.

    BEGIN, COMMIT, ROLLBACK and SAVEPOINT are statements like any other; without BEGIN each is committed at once. An
    open transaction is rolled back when the episode ends. Subclasses may override `open_database` with another engine.
    """

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=64, preload=("json", "re", "sqlite3"))
    disk_per_byte = 3.0  # disk space for the file, additions to it, and a journal
    memory_per_byte = 8.0  # memory for sorting a table's rows as text, by which its state is hashed
    reward = "sql_state"
    system = "Change the database as asked, by SQL, then finish. What is not committed then is lost."

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self._committed: list[str] = []  # statements whose effect is committed
        self._pending: list[str] = []  # statements of the open transaction
        self._state = ""  # hash of the committed state
        self._unsure = False  # a statement was interrupted, and may or may not have had its effect

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Put the task's database into a fresh sandbox. Raises: TaskError if there is no such database."""
        opening = await super().reset(task, seed=seed)
        self._committed, self._pending, self._state = [], [], await self._ask("state")
        self._unsure = False
        return opening

    async def open_database(self, content: bytes) -> GuestObject:
        """Open the file itself with SQLite."""
        sandbox, limits = await self.sandbox_with(content), self.limits
        options = (limits.max_rows, limits.max_chars, limits.query_s, limits.max_columns)
        return ENGINE.object(sandbox, "WritableDatabase.of_file", FILE, *options, timeout_s=limits.wall_s(len(content)))

    @tool(parallel=False)
    async def execute(self, sql: str) -> str:
        """Run one SQL statement: SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, BEGIN, COMMIT, ROLLBACK."""
        return self._observed.add(await self._execute(sql))

    @tool(final=True, parallel=False)
    async def finish(self, answer: str = "") -> str:
        """End the work; give the answer if a question was asked."""
        await self._ask("rollback")
        return f"Finished. State {await self._ask('state')}."

    async def state_after(self, statements: Sequence[str]) -> str:
        """Return the state that `finish` reports after these statements. For judges; not a tool.

        Raises: ToolError if a statement is refused.
        """
        for statement in statements:
            await self._execute(statement)
        await self._ask("rollback")
        return str(await self._ask("state"))

    async def state_key(self) -> str | None:
        """Return a hash of the committed state, the transaction's statements, and the set of results seen so far."""
        return self._observed.key(self._state, *self._pending)

    async def checkpoint(self) -> Checkpoint | None:
        """Return the committed statements, those of the open transaction, and the results seen.

        None after a statement was interrupted from outside, because its effect is unknown.
        """
        if self._unsure:
            return None
        return Checkpoint({**self._observed.data(), "committed": [*self._committed], "pending": [*self._pending]})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        """Run the checkpoint's statements on a fresh copy: the same statements give the same database."""
        await self.reset(task, seed=seed)
        for statement in checkpoint.data["committed"]:
            await self._execute(statement)
        for statement in checkpoint.data["pending"]:
            with suppress(ToolError):  # the checkpoint may include the statement that failed the transaction
                await self._execute(statement)
        self._observed.restore(checkpoint.data)

    @property
    def _losses(self) -> int:
        """Return how often the engine ended and lost its open transaction."""
        return self._database.losses if self._database else 0

    async def _execute(self, sql: str) -> str:
        losses = self._losses
        try:
            reply = await self._ask("execute", sql)
        except asyncio.CancelledError:
            self._unsure, self._pending = True, []  # the session has ended, and its open transaction too
            raise
        except ToolError:
            how = "" if self._losses != losses or not self._pending else await self._ask("is_open")
            if not how:
                self._pending = []  # the transaction was rolled back, by the engine or because the engine ended
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


class SqlWrite(WritableSqlEnvironment):
    """Changes to an SQLite database, with transactions, in a sandbox. Not isolated: SQL can change every table.

    Task parameters as for `agentgym/sql-v1`. The state in the result of `finish` is judged: a hash of every table's
    content.
    """

    task_set = "sql/changes-v1"
