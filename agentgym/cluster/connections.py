"""The connections of an environment server. Clients without a valid token can neither keep nor use up connections."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

KEEP_ALIVE_S = 120
"""How long an idle connection stays open: longer than clients keep it, so that none is closed during a request."""


def server_config(application: Any, connections: Connections, **options: Any) -> Config:
    """Return the configuration of a server whose connections are bounded. `options`: further arguments of Config."""
    return Config(
        application,
        http=cast("type[asyncio.Protocol]", partial(BoundedConnection, connections)),
        ws="none",
        access_log=False,
        server_header=False,
        backlog=1024,
        timeout_keep_alive=KEEP_ALIVE_S,
        **options,
    )


class Connections:
    """All open connections: those that sent a valid token, and the others, called strangers.

    Args:
        most: the maximum open at once. A further connection replaces the oldest stranger; without strangers it is
            refused.
        first_request_s: how long a stranger may stay.
    """

    def __init__(self, most: int, first_request_s: float) -> None:
        self.most, self.first_request_s = most, first_request_s
        # connections without a valid token yet, by peer address, the oldest first
        self._strangers: dict[object, BoundedConnection] = {}
        self._known: set[object] = set()

    def add(self, connection: BoundedConnection) -> bool:
        """Add a new connection. Returns: whether it may stay."""
        if len(self._strangers) + len(self._known) >= self.most:
            if not self._strangers:
                return False
            self._strangers.pop(next(iter(self._strangers))).drop()
        self._strangers[connection.client] = connection
        return True

    def accept(self, address: object) -> None:
        """Let the connection from an address stay, because it sent a valid token."""
        if self._strangers.pop(address, None) is not None:
            self._known.add(address)

    def is_stranger(self, address: object) -> bool:
        return address in self._strangers

    def remove(self, address: object) -> None:
        """Forget a connection that has ended."""
        self._strangers.pop(address, None)
        self._known.discard(address)


class BoundedConnection(H11Protocol):
    """A connection that is closed if it sends no valid token in time.

    A token in an unfinished request head, or in a request whose body is never read, does not count.
    """

    def __init__(self, connections: Connections, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._all.add(self):
            self.drop()
            return
        self._deadline = self.loop.call_later(self._all.first_request_s, self._end_stranger)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._all.remove(self.client)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection at once, discarding unsent data."""
        self.transport.abort()

    def _end_stranger(self) -> None:
        if self._all.is_stranger(self.client):
            self.drop()
