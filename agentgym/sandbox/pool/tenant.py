"""A pool as the backend of one tenant: tenants take turns when there is not enough room for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.sandbox.contract import Capabilities, Running, Sandbox, Snapshot
from agentgym.sandbox.limits import SandboxSpec

if TYPE_CHECKING:
    from agentgym.sandbox.pool.pool import Pool


class TenantView:
    """The backend that `Pool.for_tenant` returns."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool, self._tenant, self.name = pool, tenant, pool.name

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        return await self._pool.lease(spec, snapshot=snapshot, tenant=self._tenant)

    async def probe(self) -> Capabilities:
        return await self._pool.probe()

    async def running(self) -> list[Running]:
        return await self._pool.running()

    async def clean(self) -> list[str]:
        return await self._pool.clean()

    async def close(self) -> None:
        """Do nothing: all tenants share the pool, and whoever made it closes it."""
