"""A world that was put back to a checkpoint: it answers the turns before it from the record, and goes on from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from agentgym.environment import Checkpoint, Environment
from agentgym.messages import Call, Message, Result
from agentgym.sandbox import Usage
from agentgym.task import Task
from agentgym.tools import Tool
from agentgym.trajectory import Trajectory, Turn


class Restored(Environment):
    """Stands in front of a fresh world for one branch. Nothing before the fork is run again.

    Args:
        world: made for this branch alone. `record`: what was played. `turn`: the fork; `checkpoint`: taken before it.
    """

    def __init__(self, world: Environment, record: Trajectory, turn: int, checkpoint: Checkpoint) -> None:
        self.world, self._record, self._turn, self._from = world, record, turn, checkpoint
        self._left = deque(record.turns[:turn])
        self._results: deque[Result] = deque()
        self._now: Turn | None = None

    @property
    def tools(self) -> Mapping[str, Tool]:  # type: ignore[override]  # the world's own
        return self.world.tools

    @property
    def reward(self) -> str | None:  # type: ignore[override]
        return self.world.reward

    @property
    def image_digests(self) -> list[str]:
        return self.world.image_digests

    @property
    def ended(self) -> bool:
        return self.world.ended

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        await self.world.restore(task, self._from, seed=seed)
        return list(self._record.opening)

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._left.clear()
        self._now = None
        await self.world.restore(task, checkpoint, seed=seed)

    async def state_key(self) -> str | None:
        """Asked before each turn, and so where the next one begins."""
        self._now = self._left.popleft() if self._left else None
        self._results = deque(self._now.results if self._now else ())
        return self._now.state_key if self._now else await self.world.state_key()

    async def potential(self) -> float | None:
        return self._now.potential if self._now else await self.world.potential()

    async def checkpoint(self) -> Checkpoint | None:
        return None if self._now else await self.world.checkpoint()

    async def call(self, call: Call) -> Result:
        return self._results.popleft() if self._now else await self.world.call(call)

    async def respond(self, message: Message) -> list[Message]:
        return list(self._now.replies) if self._now else await self.world.respond(message)

    async def usage(self) -> Usage:
        return await self.world.usage()

    async def close(self) -> None:
        await self.world.close()
