"""An event loop in its own thread, for work that outlives the host's event loops, and the connections that it holds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from agentgym.errors import SandboxError
from agentgym.sandbox.network.account import ProcessorShare


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
    """Hands out connection slots. If all are taken, a request gets one from the owner with the most slots, provided
    that this owner has at least two more than the requester.

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


_END_S = 10.0


class LoopThread:
    """An event loop in a daemon thread of this process, with the limits that all sandboxes share.

    Attributes:
        connection_slots: limit on concurrent connections. processor: limit on the thread's processor time.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._loop = asyncio.new_event_loop()
        # a connection takes two descriptors, and half of the process's descriptors stay free
        self.connection_slots = ConnectionSlots(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4, 8))
        self.processor = ProcessorShare()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agentgym-proxy", daemon=True)
        self._thread.start()

    @property
    def usable(self) -> bool:
        """Return whether the thread runs; False in a forked process, which does not have the thread."""
        return self._owner == os.getpid() and not self._loop.is_closed()

    def soon(self, function: Callable[..., None], *arguments: Any) -> bool:
        """Make the loop call a function. Returns: False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # closed
            return False
        return True

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in the loop and wait for it. Raises: SandboxError if it does not end in time."""
        done: Future[None] = Future()

        def begin() -> None:
            task = self._loop.create_task(work())
            task.add_done_callback(lambda _: done.set_result(None))

        if self._thread.is_alive() and self.soon(begin):
            try:
                done.result(_END_S)
            except TimeoutError as error:
                raise SandboxError(f"The proxy could not close its connections within {_END_S:g} s.") from error

    def end(self) -> None:
        """Cancel everything that runs in the loop, and end the thread."""
        self.wait_for(self._cancel_all)
        self.soon(self._loop.stop)
        self._thread.join(_END_S)
        self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
