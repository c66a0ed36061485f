"""One connection from a program in a sandbox, relayed unread to one address of the host."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from agentgym.sandbox.network.account import Account, PacedSocket, Refusal


class RelayedConnection:
    """Relays one client socket to its end. Runs in the proxy's event loop.

    The sandbox's limits on connections, requests (here: connections in all), transfer and reads apply. A silent
    connection stays open: a server may think for long, and has limits of its own.

    Args:
        address: where every connection leads; the client has no say in it.
    """

    def __init__(self, client: socket.socket, account: Account, address: tuple[str, int]) -> None:
        self._client, self._account, self._address = PacedSocket(client, account), account, address
        self._task = asyncio.current_task()
        self.quiet_since = asyncio.get_running_loop().time()

    def give_way(self) -> None:
        """End soon, because there are too many connections and this sandbox has the most."""
        assert self._task is not None
        self._task.cancel()

    async def run(self) -> None:
        """Relay both directions until one side ends. Raises nothing; the caller closes the client's socket."""
        with contextlib.suppress(OSError, Refusal):
            self._account.enter("", 0)
            await self._relay()

    async def _relay(self) -> None:
        stream = socket.socket(socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET)
        server = PacedSocket(stream, self._account)
        try:
            stream.setblocking(False)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(self._account.limits.connect_s):
                await asyncio.get_running_loop().sock_connect(stream, self._address)
            ways = [
                asyncio.create_task(self._account.metered(lambda: self._pump(self._client, server))),
                asyncio.create_task(self._account.metered(lambda: self._pump(server, self._client))),
            ]
            try:
                await asyncio.gather(*ways)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            server.close()

    async def _pump(self, source: PacedSocket, target: PacedSocket) -> None:
        while piece := await source.receive():
            self._account.spend(len(piece))
            await target.send(piece)
            self.quiet_since = asyncio.get_running_loop().time()
        with contextlib.suppress(OSError):
            target.shut()
