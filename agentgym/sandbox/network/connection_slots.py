"""A limit on the total connections of all sandboxes, shared fairly among them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


class GivesWay(Protocol):
    """A connection that can be ended to make room for another. `quiet_since`: time of its last byte, in s."""

    quiet_since: float

    def give_way(self) -> None:
        """End soon, without waiting for the peer."""


@dataclass(eq=False)
class _Waiter:
    owner: object
    connection: GivesWay
    granted: asyncio.Future[None]


class ConnectionSlots:
    """Hands out connection slots. If all are taken, a new request gets one from the owner of most slots, if that has at
    least two more than the requester.

    That owner gives up the connection that has been quiet for longest, so silent connections cannot starve others. Used
    in one event loop.
    """

    def __init__(self, total: int) -> None:
        self._free = total
        self._held: dict[object, list[GivesWay]] = {}
        self._waiting: list[_Waiter] = []
        self._leaving = 0  # connections told to give way that have not ended yet

    @contextlib.asynccontextmanager
    async def hold(self, owner: object, connection: GivesWay) -> AsyncIterator[None]:
        """Wait for a slot, and free it at the end of the block."""
        waiter = _Waiter(owner, connection, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._assign()
        try:
            await waiter.granted
            yield
        finally:
            self._release(waiter)
            self._assign()

    def _assign(self) -> None:
        """Grant slots to the owners that have the fewest, first come first served."""
        while self._waiting:
            waiter = min(self._waiting, key=lambda waiter: self._count(waiter.owner))
            if not self._free:
                self._make_room(waiter.owner)
                return
            self._free -= 1
            self._waiting.remove(waiter)
            self._held.setdefault(waiter.owner, []).append(waiter.connection)
            if not waiter.granted.done():  # else it was just cancelled, and will release the slot
                waiter.granted.set_result(None)

    def _make_room(self, owner: object) -> None:
        richest = max(self._held, key=self._count, default=owner)
        if self._leaving < len(self._waiting) and self._count(richest) > self._count(owner) + 1:
            victim = min(self._held[richest], key=lambda connection: connection.quiet_since)
            self._held[richest].remove(victim)
            self._leaving += 1
            victim.give_way()

    def _release(self, waiter: _Waiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            return
        self._free += 1
        connections = self._held.get(waiter.owner, [])
        if waiter.connection in connections:
            connections.remove(waiter.connection)
        else:
            self._leaving -= 1
        if not connections:
            self._held.pop(waiter.owner, None)

    def _count(self, owner: object) -> int:
        return len(self._held.get(owner, ()))
