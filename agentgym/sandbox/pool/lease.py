"""What callers of a pool hold: a sandbox on loan, or the pool as the backend of one tenant."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agentgym.errors import SandboxDied
from agentgym.sandbox.contract import Backend, Capabilities, Connection, ExecResult, Running, Sandbox, Snapshot, Usage
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.wrapper import SandboxWrapper


class Lease(SandboxWrapper):
    """A sandbox while one caller holds it. Other attributes of the sandbox (`missing`, ...) are passed through.

    Attributes:
        loop: the event loop that last used the sandbox, in which it must be closed.
        peak_mib: the highest memory peak seen so far.
        died: a call raised SandboxDied. `expired`: the lease has run out.
    """

    def __init__(self, sandbox: Sandbox, lease_s: float, returned: Callable[[Lease], None]) -> None:
        """Create a lease. `returned` is called once, when the sandbox is closed for any reason."""
        self._sandbox, self._returned = sandbox, returned
        self.loop = asyncio.get_running_loop()
        self.peak_mib, self.died, self.closed, self.expired = 0.0, False, False, False
        self._lease_s = lease_s
        self._deadline = time.monotonic() + lease_s

    @property
    def remaining_s(self) -> float:
        """Return the seconds until the lease runs out."""
        return self._deadline - time.monotonic()

    def extend(self, seconds: float) -> None:
        """Make the lease longer. Raises: SandboxDied if it has run out already."""
        self._check()
        self._lease_s += seconds
        self._deadline += seconds

    async def expire(self) -> None:
        """Close the sandbox because the lease has run out. The next call raises SandboxDied."""
        self.expired = True
        await self.close()

    async def run(self, method: str, program: Any, **options: Any) -> ExecResult:
        result = await super().run(method, program, **options)
        self.peak_mib = max(self.peak_mib, result.usage.peak_memory_mib)
        return result

    @property
    def connections(self) -> tuple[Connection, ...]:
        return self._sandbox.connections

    async def usage(self) -> Usage:
        used = await super().usage()
        self.peak_mib = max(self.peak_mib, used.peak_memory_mib)
        return used

    async def close(self) -> None:
        """Kill everything, leave nothing behind, and return the slot to the pool. May be called twice."""
        self.loop = asyncio.get_running_loop()
        try:
            await self._sandbox.close()
        finally:
            if not self.closed:
                self.closed = True
                self._returned(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # private attributes are not passed through
            raise AttributeError(name)
        return getattr(self._sandbox, name)

    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the sandbox while the lease lasts. Raises: SandboxDied; any error of the method."""
        if self.remaining_s <= 0 and not self.closed:
            await self.expire()  # the pool's timer has ended together with its event loop
        self._check()
        self.loop = asyncio.get_running_loop()
        try:
            return await getattr(self._sandbox, method)(*arguments, **options)
        except SandboxDied as error:
            self._check(error)
            self.died = self.died or not self.closed
            raise

    def _check(self, cause: BaseException | None = None) -> None:
        if self.expired:
            raise SandboxDied(
                f"The pool closed this sandbox, because its lease of {self._lease_s:g} s ended. Close sandboxes that "
                "are no longer needed, extend the lease of one that is, or give the pool a larger lease_s."
            ) from cause


class TenantView:
    """The backend that `Pool.for_tenant` returns.

    Args:
        pool: the pool that all tenants share.
        lease: creates a sandbox of the pool for this tenant.
    """

    def __init__(self, pool: Backend, lease: Callable[..., Awaitable[Sandbox]]) -> None:
        self._pool, self._lease, self.name = pool, lease, pool.name
        self.has_relay = getattr(pool, "has_relay", False)

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
