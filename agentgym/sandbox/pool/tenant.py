"""A pool as the backend of one tenant: tenants take turns when there is not enough room for all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentgym.sandbox.contract import Backend, Capabilities, Running, Sandbox, Snapshot
from agentgym.sandbox.limits import SandboxSpec


class TenantView:
    """The backend that `Pool.for_tenant` returns.

    Args:
        pool: the pool that all tenants share.
        lease: creates a sandbox of the pool for this tenant.
    """

    def __init__(self, pool: Backend, lease: Callable[..., Awaitable[Sandbox]]) -> None:
        self._pool, self._lease, self.name = pool, lease, pool.name

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        return await self._lease(spec, snapshot=snapshot)

    async def probe(self) -> Capabilities:
        return await self._pool.probe()

    async def running(self) -> list[Running]:
        return await self._pool.running()

    async def clean(self) -> list[str]:
        return await self._pool.clean()

    async def close(self) -> None:
        """Do nothing: all tenants share the pool, and its creator closes it."""
