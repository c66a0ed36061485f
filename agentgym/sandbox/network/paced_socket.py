"""A socket that charges every read and write to a sandbox's account.

asyncio's `sock_recv` and `sock_sendall` are not used: they finish in callbacks of the loop, whose processor time is
charged to no sandbox, and a peer with a tiny window could cause any number of callbacks.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from agentgym.sandbox.network.account import Account

_PIECE = 1 << 16


class PacedSocket:
    """A non-blocking stream socket. One task may read it while another writes."""

    def __init__(self, stream: socket.socket, account: Account) -> None:
        self._stream, self._account = stream, account
        self._loop = asyncio.get_running_loop()

    async def receive(self) -> bytes:
        """Read at most 64 KiB; empty at the end. Raises: OSError."""
        while True:
            await self._account.pace()
            try:
                return self._stream.recv(_PIECE)
            except BlockingIOError:
                await self._ready(self._loop.add_reader, self._loop.remove_reader)

    async def send(self, data: bytes) -> None:
        """Send all of the data. Raises: OSError."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._stream.send(rest) :]
            except BlockingIOError:
                await self._ready(self._loop.add_writer, self._loop.remove_writer)
                await self._account.pace()

    def shut(self) -> None:
        """Shut down the sending side. Raises: OSError."""
        self._stream.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket. May be called twice."""
        self._stream.close()

    async def _ready(self, watch: Callable[..., object], stop: Callable[[int], object]) -> None:
        descriptor, ready = self._stream.fileno(), self._loop.create_future()
        watch(descriptor, _settle, ready)
        try:
            await ready
        finally:
            stop(descriptor)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
