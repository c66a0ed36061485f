"""The common base of backends that make a guest for each sandbox on this machine."""

from __future__ import annotations

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.contract import Capabilities, Snapshot
from agentgym.sandbox.guest import architecture
from agentgym.sandbox.host.guest_handle import GuestHandle, descriptors_available
from agentgym.sandbox.host.guest_sandbox import GuestSandbox
from agentgym.sandbox.limits import ALL, LIMITS, SandboxSpec
from agentgym.sandbox.network.proxy import Proxy
from agentgym.sandbox.time_limit import uncounted


class GuestBackend(ABC):
    """Creates sandboxes with a guest each. A subclass makes the guests.

    `watches`: whether limits that are not enforced are watched.
    """

    name: str
    watches: ClassVar[bool] = True

    def __init__(self, proxy: Proxy | None) -> None:
        self._proxy = proxy or Proxy()
        self._sandboxes: weakref.WeakSet[GuestSandbox] = weakref.WeakSet()

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> GuestSandbox:
        """Create a sandbox; see `Backend.create`."""

        async def make_guest() -> GuestHandle:
            return await self._make_guest(spec, snapshot)

        with uncounted():
            guest = await make_guest()
        sandbox = GuestSandbox(spec, self.name, guest, make_guest, self._proxy)
        self._sandboxes.add(sandbox)
        return sandbox

    async def probe(self) -> Capabilities:
        """Create a sandbox to find out what can be enforced here; see `Backend.probe`."""
        try:
            guest = await self._make_guest(SandboxSpec(accept_weaker=(ALL,)), None)
        except SandboxUnavailable as error:
            return Capabilities(False, reason=str(error))
        await guest.close()
        missing = self._explain(guest.missing)
        return Capabilities(
            True,
            self._level(missing),
            enforced=tuple(name for name in LIMITS if name not in missing),
            missing=tuple(missing.items()),
            watched=tuple(missing) if self.watches else (),
            snapshots=True,
        )

    async def _make_guest(self, spec: SandboxSpec, snapshot: Snapshot | None) -> GuestHandle:
        if reason := architecture.unsupported():
            raise SandboxUnavailable(f"No sandbox can be created here: {reason}.")
        with descriptors_available():
            return await self._create_guest(spec, snapshot)

    async def _close_sandboxes(self) -> None:
        """Close every sandbox, even if some cannot be closed. Raises: SandboxError of the first of those."""
        closings = (sandbox.close() for sandbox in list(self._sandboxes))
        for failure in await asyncio.gather(*closings, return_exceptions=True):
            if failure is not None:
                raise failure

    @abstractmethod
    async def _create_guest(self, spec: SandboxSpec, snapshot: Snapshot | None) -> GuestHandle:
        """Make a guest, with the files of a snapshot if one is given. Raises: as `Backend.create`."""

    @abstractmethod
    def _level(self, missing: Mapping[str, str]) -> str:
        """Return the level of isolation without these limits; see `Capabilities.level`."""

    def _explain(self, missing: Mapping[str, str]) -> dict[str, str]:
        """Return why each limit is missing, what is done instead, and the remedy."""
        return dict(missing)
