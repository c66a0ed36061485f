"""A pool as one owner sees it: owners take turns when there is no room for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.sandbox.contract import Capabilities, Running, Sandbox, Snapshot
from agentgym.sandbox.limits import SandboxSpec

if TYPE_CHECKING:
    from agentgym.sandbox.pool.pool import Pool


class Owned:
    """A backend; see `Pool.owned_by`."""

    def __init__(self, pool: Pool, owner: str) -> None:
        self._pool, self._owner, self.name = pool, owner, pool.name

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        return await self._pool.lease(spec, snapshot=snapshot, owner=self._owner)

    async def probe(self) -> Capabilities:
        return await self._pool.probe()

    async def running(self) -> list[Running]:
        return await self._pool.running()

    async def clean(self) -> list[str]:
        return await self._pool.clean()

    async def close(self) -> None:
        """Nothing: the pool belongs to all its owners."""
