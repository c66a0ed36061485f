"""The leases of the open episodes on a server, and the heartbeats that renew them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Protocol

import httpx

from agentgym.errors import AccessRefused, EnvironmentServerError, LeaseLost
from agentgym.text import counted

_LOGGER = logging.getLogger(__name__)
_PER_LEASE = 4
"""Heartbeats per lease duration."""


class EpisodeLease:
    """An open episode, kept alive by heartbeats.

    Attributes:
        client: its own connection pool. A shared pool would search all episodes' connections at each request.
        loop: the event loop that opened the episode and owns its connections.
        message_bytes: the largest request that the server reads.
        number: the number of the next request. The server begins requests in the order of their numbers.
        dropped: numbers of requests that were cancelled, and may never arrive.
        lost: why the lease was lost; None while the lease is open.
    """

    def __init__(self, episode_id: str, client: httpx.AsyncClient, message_bytes: int) -> None:
        self.id, self.client, self.message_bytes = episode_id, client, message_bytes
        self.loop = asyncio.get_running_loop()
        self.number = 0
        self.dropped: set[int] = set()
        self.lost: EnvironmentServerError | None = None
        self._limits: set[asyncio.Timeout] = set()

    def watch(self, limit: asyncio.Timeout) -> None:
        """End a running request when the lease is lost."""
        self._limits.add(limit)

    def unwatch(self, limit: asyncio.Timeout) -> None:
        self._limits.discard(limit)

    def lose(self, error: EnvironmentServerError) -> None:
        """Mark the lease as lost, and end every request that waits for an answer."""
        if self.lost is None:
            self.lost = error
        for limit in self._limits:
            with suppress(RuntimeError):  # the timeout has just ended
                limit.reschedule(asyncio.get_running_loop().time())


class LeaseServer(Protocol):
    """The part of `ServerConnection` that renews leases."""

    url: str

    def new_client(self) -> httpx.AsyncClient: ...

    async def renew(self, client: httpx.AsyncClient, episode_ids: list[str]) -> Any: ...

    def unreachable(self, error: Exception) -> EnvironmentServerError: ...


class Heartbeats:
    """Renews the leases of one event loop. If the server is silent for a lease duration, all leases are lost.

    Args:
        connection: the connection to the server.
        lease_s: how long a lease lasts, in seconds.
    """

    def __init__(self, connection: LeaseServer, lease_s: float) -> None:
        self._connection, self._lease_s = connection, lease_s
        self._leases: dict[str, EpisodeLease] = {}
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, lease: EpisodeLease) -> None:
        self._leases[lease.id] = lease

    def remove(self, lease: EpisodeLease) -> None:
        self._leases.pop(lease.id, None)

    async def end(self) -> None:
        """Stop renewing."""
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)

    async def _beat(self) -> None:
        now = asyncio.get_running_loop().time
        pause_s, answered_at, is_named = self._lease_s / _PER_LEASE, now(), False
        async with self._connection.new_client() as client:
            while True:
                await asyncio.sleep(pause_s)
                try:
                    async with asyncio.timeout(pause_s):
                        lost = await self._connection.renew(client, [*self._leases])
                    answered_at, is_named = now(), False
                    for episode_id, reason in lost.items():
                        self._lose([episode_id], LeaseLost(f"{reason} The server is {self._connection.url}."))
                except AccessRefused as error:
                    self._lose([*self._leases], error)
                except (EnvironmentServerError, TimeoutError, KeyError, AttributeError) as error:
                    if not is_named and now() - answered_at >= self._lease_s / 2:
                        is_named = True
                        _LOGGER.warning(
                            "The server at %s has not answered for %.0f s. %s of this process will begin anew if it "
                            "does not within %g s.",
                            *(self._connection.url, now() - answered_at, counted(len(self), "episode"), self._lease_s),
                        )
                    if now() - answered_at >= self._lease_s:
                        self._lose([*self._leases], self._connection.unreachable(error))

    def _lose(self, episode_ids: list[str], error: EnvironmentServerError) -> None:
        for episode_id in episode_ids:
            if (lease := self._leases.get(episode_id)) is not None:
                lease.lose(error)
