"""Worlds that an agent questions and cannot change: what differs between two moments is what it has seen."""

from __future__ import annotations

from agentgym import Checkpoint, Task, tool

from .guest_link import GuestLink
from .world import FILE, MAX_CHARS, MAX_ROWS, QUERY_S, SqlWorld


class ReadingWorld(SqlWorld):
    """A read-only SQLite database in a sandbox. Not isolated: who can read what within the file.

    Subclasses add the tool that ends the episode, and may put another engine into `place`.
    """

    async def place(self, content: bytes) -> GuestLink:
        """SQLite itself, on the file as it is."""
        maker = f"guest.Database.of_file({FILE!r}, {MAX_ROWS}, {MAX_CHARS}, {QUERY_S})"
        return GuestLink(await self._holding(content), ["guest"], maker)

    @tool
    async def query(self, sql: str) -> str:
        """Run one SELECT."""
        return self._known.add(await self._ask("query", sql))

    async def state_key(self) -> str | None:
        """Hash of the database and of every result seen so far, in any order."""
        return self._known.key()

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint(self._known.data())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        self._known.restore(checkpoint.data)
