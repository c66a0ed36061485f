"""What is behind a sandbox: the link to its guest, and the lifeline whose far end the spawner holds."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from typing import Any

from agentgym.errors import SandboxError
from agentgym.sandbox.link import Link

_CLOSE_S = 15.0
_VERDICT_S = 5.0
_CLOSED = "The sandbox was closed."


class Machine:
    """One guest and everything it lives in.

    `missing`: limits that are not enforced, each with the reason. `image_digest`: what its files are of; "" for the
    host's own.
    """

    def __init__(self, link: Link, lifeline: socket.socket) -> None:
        lifeline.setblocking(False)
        self.link, self._lifeline = link, lifeline
        self.missing: dict[str, str] = {}
        self.image_digest = ""
        self._closing: asyncio.Future[None] | None = None

    async def verdict(self) -> dict[str, Any] | None:
        """What the spawner says about the end of a sandbox; None if it says nothing."""
        try:
            async with asyncio.timeout(_VERDICT_S):
                said = await asyncio.get_running_loop().sock_recv(self._lifeline, 65_536)
            return dict(json.loads(said)) if said else None
        except (OSError, TimeoutError, ValueError):
            return None

    async def trusted(self, operation: str, timeout_s: float, descriptors: Sequence[int]) -> tuple[bool, str]:
        """Have the guest do something with its files. Returns: whether it worked, and what it said if not."""
        header, blob = await self.link.call(
            {"op": operation, "timeout": timeout_s, "limit": 4096}, deadline_s=timeout_s + 5, max_blob=8192,
            descriptors=descriptors,
        )  # fmt: skip
        return header.get("exit") == 0, blob[:500].decode("utf-8", "replace")

    async def close(self) -> None:
        """Kill everything, and wait until the spawner says that nothing is left. May be called twice."""
        if self._lifeline.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        if self._closing is not None and self._closing.get_loop() is loop:
            await asyncio.shield(self._closing)
            return
        self._closing = loop.create_future()
        try:
            self.link.close(_CLOSED)
            try:
                self._lifeline.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(_CLOSE_S):
                    while await loop.sock_recv(self._lifeline, 65_536):
                        pass
            except TimeoutError as error:
                raise SandboxError(f"The spawner did not end a sandbox within {_CLOSE_S:g} s.") from error
            except OSError:
                pass  # the spawner is gone, and the kernel has taken the sandbox with it
        finally:
            self._lifeline.close()
            self._closing.set_result(None)

    def forget(self) -> None:
        """In a forked process: let go of what belongs to its parent."""
        self.link.forget()
        self._lifeline.close()
