"""The sandboxes of one environment: opened on demand, metered, and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import overload

from agentgym.sandbox import Sandbox, Usage
from agentgym.sandbox.limits import in_order
from agentgym.sandbox.metering import SandboxMeter


class EnvironmentSandboxes(Sequence[Sandbox]):
    """The open sandboxes, in opening order.

    The constructor of an environment that uses other resources, such as a server's, assigns an instance of a subclass
    that overrides `usage`: `self.sandboxes = ServerSandboxes(...)`.

    Attributes:
        default: the sandbox that `Environment.default_sandbox` opens; None until then.
        shared: sandboxes that other environments use too and close, such as a browser's. They are not metered here.
        were_opened: whether any sandbox was ever opened, so that `usage` can be more than zero.
    """

    default: Sandbox | None = None
    were_opened = False

    def __init__(self) -> None:
        self._open: list[Sandbox] = []
        self.shared: Sequence[Sandbox] = ()

    @overload
    def __getitem__(self, index: int) -> Sandbox: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sandbox]: ...
    def __getitem__(self, index: int | slice) -> Sandbox | Sequence[Sandbox]:
        return self._open[index]

    def __len__(self) -> int:
        return len(self._open)

    @cached_property
    def _opening(self) -> asyncio.Lock:
        """The lock to hold while the default sandbox is opened."""
        return asyncio.Lock()

    @cached_property
    def _meter(self) -> SandboxMeter:
        return SandboxMeter()

    def add(self, sandbox: Sandbox) -> Sandbox:
        """Add a sandbox, to be metered and closed with the others. Returns: the same sandbox."""
        self._open.append(sandbox)
        self.were_opened = True
        return sandbox

    async def open_default(self, make: Callable[[], Awaitable[Sandbox]], *, empty: bool) -> Sandbox:
        """Return the default sandbox. `make` opens it if necessary; `empty` resets a sandbox that is already open."""
        async with self._opening:
            if self.default is None:
                self.default = await make()
            elif empty:
                await self.default.reset()
            return self.default

    async def usage(self) -> Usage:
        """Return the usage of all sandboxes since the environment was made, including reset and closed ones.

        A sandbox that was closed or died counts with its last reading. Peaks of several sandboxes are summed.
        """
        return await self._meter.read(self._open)

    @property
    def image_digests(self) -> list[str]:
        """Digests of the images that the sandboxes run on; empty for the host's own programs."""
        digests = {getattr(sandbox, "image_digest", "") for sandbox in (*self._open, *self.shared)}
        return sorted(digests - {""})

    @property
    def weaker_limits(self) -> list[str]:
        """Names of the limits that some sandbox does not enforce, which was accepted."""
        return in_order(name for sandbox in (*self._open, *self.shared) for name in getattr(sandbox, "missing", ()))

    async def close(self) -> None:
        """Close every sandbox. Raises: the first error, after all sandboxes were closed."""
        sandboxes, self._open, self.default = self._open, [], None
        outcomes = await asyncio.gather(*(sandbox.close() for sandbox in sandboxes), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            raise failures[0]
