"""A sandbox on loan from a pool: passes calls through to it, until it is closed or the lease runs out."""

from __future__ import annotations

import asyncio
import builtins
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from agentgym.errors import SandboxDied
from agentgym.sandbox.contract import Channel, Connection, ExecResult, Sandbox, Snapshot, Usage

T = TypeVar("T")


class Lease:
    """A sandbox while one caller holds it. Its further attributes (`missing`, ...) are passed through.

    Attributes:
        loop: the event loop that used it last, in which it has to be closed.
        peak_mib: the highest memory peak seen so far.
        died: a call raised SandboxDied. `expired`: the lease has run out.
    """

    def __init__(self, sandbox: Sandbox, lease_s: float, returned: Callable[[Lease], None]) -> None:
        """`returned` is called once, when the sandbox is closed by anyone."""
        self._sandbox, self._returned = sandbox, returned
        self.loop = asyncio.get_running_loop()
        self.peak_mib, self.died, self.closed, self.expired = 0.0, False, False, False
        self._lease_s = lease_s
        self._deadline = time.monotonic() + lease_s

    @property
    def remaining_s(self) -> float:
        """Seconds until the lease runs out."""
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

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30,
        max_output_bytes: int = 65_536,
    ) -> ExecResult:
        result = await self._call(
            self._sandbox.exec,
            argv,
            stdin=stdin,
            cwd=cwd,
            env=env,
            timeout_s=timeout_s,
            max_output_bytes=max_output_bytes,
        )
        return self._note_peak(result)

    async def run_python(
        self, code: str, *, session: str | None = None, timeout_s: float = 30, max_output_bytes: int = 65_536
    ) -> ExecResult:
        return self._note_peak(
            await self._call(
                self._sandbox.run_python, code, session=session, timeout_s=timeout_s, max_output_bytes=max_output_bytes
            )
        )

    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        return await self._call(self._sandbox.read, path, max_bytes=max_bytes)

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        await self._call(self._sandbox.write, path, data, mode)

    async def list(self, path: str = ".") -> builtins.list[str]:
        return await self._call(self._sandbox.list, path)

    async def open_channel(self, argv: Sequence[str]) -> Channel:
        return await self._call(self._sandbox.open_channel, argv)

    async def snapshot(self) -> Snapshot:
        return await self._call(self._sandbox.snapshot)

    async def reset(self) -> None:
        """As `Sandbox.reset`. The sandbox stays with its holder: the pool hands out none twice."""
        await self._call(self._sandbox.reset)

    @property
    def connections(self) -> tuple[Connection, ...]:
        return self._sandbox.connections

    async def usage(self) -> Usage:
        used = await self._call(self._sandbox.usage)
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

    async def _call(self, method: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        if self.remaining_s <= 0 and not self.closed:
            await self.expire()  # the pool's timer ended with its event loop
        self._check()
        self.loop = asyncio.get_running_loop()
        try:
            return await method(*args, **options)
        except SandboxDied as error:
            self._check(error)
            self.died = self.died or not self.closed
            raise

    def _note_peak(self, result: ExecResult) -> ExecResult:
        self.peak_mib = max(self.peak_mib, result.usage.peak_memory_mib)
        return result

    def _check(self, cause: BaseException | None = None) -> None:
        if self.expired:
            raise SandboxDied(
                f"The lease of this sandbox ran out after {self._lease_s:g} s, so the pool closed it. Close sandboxes "
                "that are not needed, extend the lease of one that is, or give the pool a larger lease_s."
            ) from cause
