"""`agentgym/sql-v1`: a real SQLite database inside the sandbox, and four tools to question it."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, tool
from agentgym.errors import SandboxDied, SandboxError, TaskError, UnknownNameError
from agentgym.registry import load
from agentgym.sandbox import Sandbox

MAX_ROWS, MAX_CHARS, QUERY_S, CALL_S = 20, 2_000, 2.0, 10.0


class Sql(Environment):
    """Questions about an SQLite database, read-only, inside a sandbox. Not isolated: who can read what within the file.

    Task parameters: `database`, the name of an asset such as "sql/store" or the path of an SQLite file;
    `seed`, an integer given to the asset (optional); `show_schema`, true puts the tables and their
    columns into the system message (optional).
    """

    sandbox = SandboxSpec(memory_mib=256, processes=16, disk_mib=32, preload=("json", "re", "sqlite3"))
    reward = "sql"

    def __init__(self) -> None:
        self._machine: Sandbox | None = None
        self._session = 0
        self._open = False
        self._turn = asyncio.Lock()  # parallel calls of one turn share the one connection
        self._identity = ""
        self._seen: set[str] = set()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Put the task's database into a fresh sandbox. Raises: TaskError if there is no such database."""
        content = await asyncio.to_thread(_database, task)
        self._identity = hashlib.sha256(content).hexdigest()
        self._seen = set()
        self._open = False
        if self._machine is None:
            self._machine = await self.open_sandbox()
        else:
            await self._machine.reset()
        await self._machine.write("database.sqlite", content)
        system = "Answer with the bare value, found by SQL."
        if task.parameters.get("show_schema"):
            system += "\n" + await self._ask("schema")
        return [Message("system", system), *task.opening()]

    @tool
    async def tables(self) -> str:
        """List the tables."""
        return await self._see("tables")

    @tool
    async def describe(self, table: str) -> str:
        """Show a table's columns."""
        return await self._see("describe", table)

    @tool
    async def query(self, sql: str) -> str:
        """Run one SELECT."""
        return await self._see("query", sql)

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Give the answer."""
        return "Answered."

    async def state_key(self) -> str | None:
        """Hash of the database and of every result seen so far, in any order.

        The world never changes; what differs between two moments of an episode is what the agent knows.
        """
        digest = hashlib.sha256(self._identity.encode())
        for result in sorted(self._seen):
            digest.update(hashlib.sha256(result.encode()).digest())
        return digest.hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"seen": sorted(self._seen)})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        self._seen = set(checkpoint.data["seen"])

    async def _see(self, method: str, *arguments: str) -> str:
        text = await self._ask(method, *arguments)
        self._seen.add(text)
        return text

    async def _ask(self, method: str, *arguments: str) -> str:
        """One request to the guest. Raises: ToolError with what it refused; SandboxDied if it talks nonsense."""
        if self._machine is None:
            raise SandboxError("The SQL environment was used before reset.")
        async with self._turn:
            code = f"serve(database, *{[method, *arguments]!a})"
            if not self._open:
                self._session += 1
                code = f"{_guest()}\ndatabase = Database('database.sqlite', {MAX_ROWS}, {MAX_CHARS}, {QUERY_S})\n{code}"
            self._open = False  # stays so if we are cancelled: the session may be lost, and the next call opens another
            result = await self._machine.run_python(code, session=f"sql{self._session}", timeout_s=CALL_S)
            self._open = not (result.timed_out or result.oom_killed or result.exit_code < 0)
        if not self._open:
            raise ToolError("The query used too much time or memory and was stopped. Ask for less.")
        try:
            reply: dict[str, str] = json.loads(result.stdout)
        except ValueError as error:
            said = result.stderr.decode("utf-8", "replace")[-500:]
            raise SandboxDied(f"The SQL guest ended with {result.exit_code} and no reply: {said}") from error
        if "refused" in reply:
            raise ToolError(reply["refused"])
        return reply["ok"]


@cache
def _guest() -> str:
    return files("agentgym.sandboxes.sql").joinpath("guest.py").read_text(encoding="utf-8")


def _database(task: Task) -> bytes:
    """The bytes of the task's database."""
    name = task.parameters.get("database")
    if not isinstance(name, str) or not name:
        raise TaskError(f"{task.id}: parameters['database'] is {name!r}; give an asset or an SQLite file.")
    if Path(name).is_file():
        content = Path(name).read_bytes()
    else:
        try:
            asset: Any = load("assets", name)
        except UnknownNameError as error:
            raise TaskError(f"{task.id}: the database {name!r} is neither a file nor an asset. {error}") from error
        seeded = "seed" in task.parameters and "seed" in inspect.signature(asset).parameters
        content = asset(seed=task.parameters["seed"]) if seeded else asset()
    if not content.startswith(b"SQLite format 3\0"):
        raise TaskError(f"{task.id}: {name!r} is no SQLite 3 database: it begins with {content[:16]!r}.")
    return content
