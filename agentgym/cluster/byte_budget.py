"""How many bytes of large requests a server holds at once: who comes too many waits for the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SMALL = 64 * 1024
"""A request of so many bytes waits for nobody."""


class ByteBudget:
    """Bytes that may be held at once, given out in the order of asking.

    Args:
        total: none may ask for more.
    """

    def __init__(self, total: int) -> None:
        self._free, self._total = total, total
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, n_bytes: int) -> AsyncIterator[None]:
        """Hold some bytes for the block, once they are free."""
        if n_bytes <= SMALL:
            yield
            return
        n_bytes = min(n_bytes, self._total)
        await self._take(n_bytes)
        try:
            yield
        finally:
            self._give_back(n_bytes)

    async def _take(self, n_bytes: int) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((n_bytes, waiter))
        self._serve()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._give_back(n_bytes)
            raise

    def _give_back(self, n_bytes: int) -> None:
        self._free += n_bytes
        self._serve()

    def _serve(self) -> None:
        while self._waiters:
            n_bytes, waiter = self._waiters[0]
            if waiter.done():  # cancelled
                self._waiters.popleft()
            elif n_bytes <= self._free:
                self._free -= n_bytes
                waiter.set_result(None)
                self._waiters.popleft()
            else:
                return
