"""Limits the number of live sandboxes to the machine's capacity. Further callers wait in a fair order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agentgym.errors import SandboxError, SandboxUnavailable
from agentgym.sandbox.contract import Sandbox
from agentgym.sandbox.pool.headroom import Headroom, measure_headroom
from agentgym.sandbox.pool.lease import Lease

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue in which tenants take turns, and each tenant's kinds take turns. Within one kind: first in, first out."""

    def __init__(self) -> None:
        self._tenants: dict[str, dict[Hashable, deque[T]]] = {}  # tenants, and the kinds of each, in order of turns
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, tenant: str, kind: Hashable, item: T) -> None:
        """Add an item at the end of its line."""
        self._tenants.setdefault(tenant, {}).setdefault(kind, deque()).append(item)
        self._count += 1

    def head(self) -> T | None:
        """Return the next item; None if the queue is empty."""
        for kinds in self._tenants.values():
            for line in kinds.values():
                return line[0]
        return None

    def pop(self) -> T:
        """Take the next item. Raises: IndexError if the queue is empty."""
        for tenant, kinds in self._tenants.items():
            for kind, line in kinds.items():
                item = line.popleft()
                self._count -= 1
                del self._tenants[tenant], kinds[kind]
                if line:
                    kinds[kind] = line
                if kinds:
                    self._tenants[tenant] = kinds
                return item
        raise IndexError("the queue is empty")

    def remove(self, tenant: str, kind: Hashable, item: T) -> None:
        """Remove an item, if it is in the queue; the other items keep their order."""
        kinds = self._tenants.get(tenant, {})
        line = kinds.get(kind)
        if line is None or item not in line:
            return
        line.remove(item)
        self._count -= 1
        if not line:
            del kinds[kind]
        if not kinds:
            del self._tenants[tenant]


_HEALTH_S = 5.0  # a ready sandbox that does not answer in this time is not handed out
_POLL_S = 0.25  # how often waiting callers check for room
_HEADROOM_S = 0.05  # how long a measurement stays valid

Loop = asyncio.AbstractEventLoop


@dataclass(eq=False)
class Slot:
    """One sandbox's place among the sandboxes alive, from before its creation until after its end.

    Attributes:
        cost_mib: memory that the sandbox is expected to take.
        loop: the event loop that last used the sandbox, if it is not leased.
    """

    cost_mib: float
    sandbox: Sandbox | None = None
    loop: Loop | None = None
    lease: Lease | None = None
    timer: asyncio.TimerHandle | None = None

    async def answers(self) -> bool:
        """Return whether the sandbox is alive and serves requests."""
        assert self.sandbox is not None
        self.loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_HEALTH_S):
                await self.sandbox.usage()
        except (SandboxError, TimeoutError):
            return False
        return True


@dataclass(eq=False)
class _Waiter:
    """A caller that waits for a slot. `slot`: set once granted. `rejected`: why there will be none."""

    cost_mib: Callable[[], float]
    loop: Loop
    woken: asyncio.Event
    slot: Slot | None = None
    rejected: str = ""


class Admission:
    """Hands out slots and takes them back. Safe from any thread: all state changes happen under `lock`."""

    def __init__(self, lock: threading.RLock, max_alive: int | None, wait_s: float, free_a_slot: Callable[[], bool]):
        """Create an admission. `free_a_slot` begins to end an unused sandbox; it returns False if there is none."""
        self._lock, self._max_alive, self._wait_s, self._free_a_slot = lock, max_alive, wait_s, free_a_slot
        self.slots: set[Slot] = set()
        self.leaving = 0  # sandboxes being ended to make room
        self._queue: FairQueue[_Waiter] = FairQueue()
        self._headroom, self._headroom_until = Headroom(), 0.0
        self._taken, self._taken_mib = 0, 0.0  # sandboxes admitted since the last measurement, and their memory
        self._budget_mib = 0.0  # the most memory that was ever free for all sandboxes together

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def enter(self, tenant: str, kind: Hashable, cost_mib: Callable[[], float]) -> Slot:
        """Wait for a slot. Raises: SandboxUnavailable, which names the exhausted resource."""
        waiter = _Waiter(cost_mib, asyncio.get_running_loop(), asyncio.Event())
        deadline = time.monotonic() + self._wait_s
        with self._lock:
            self._queue.push(tenant, kind, waiter)
            self.pump()
        try:
            while waiter.slot is None:
                if waiter.rejected or time.monotonic() >= deadline:
                    raise SandboxUnavailable(self._timeout_message(waiter))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(deadline - time.monotonic(), _POLL_S)):
                        await waiter.woken.wait()
                with self._lock:
                    self.pump()
            return waiter.slot
        except BaseException:
            with self._lock:
                self._queue.remove(tenant, kind, waiter)
                if waiter.slot is not None:
                    self.slots.discard(waiter.slot)
                self.pump()
            raise

    def try_enter(self, cost_mib: float) -> Slot | None:
        """Return a slot, if one is free and no request waits; else None."""
        with self._lock:
            return None if self._queue or self._shortage(cost_mib) else self._take_slot(cost_mib)

    def release(self, slot: Slot) -> None:
        """Record that the sandbox of a slot has ended. May be called twice."""
        with self._lock:
            if slot in self.slots:
                self.slots.discard(slot)
                self.pump()

    def reject_all(self, why: str) -> None:
        """Make every waiting `enter` raise SandboxUnavailable."""
        with self._lock:
            while self._queue:
                waiter = self._queue.pop()
                waiter.rejected = why
                _wake(waiter)

    def pump(self) -> None:
        """Hand out slots in strict order: a small request waits behind a large one."""
        while (waiter := self._queue.head()) is not None:
            if not self._shortage(waiter.cost_mib()):
                self._queue.pop()
                waiter.slot = self._take_slot(waiter.cost_mib())
                if not _wake(waiter):
                    self.slots.discard(waiter.slot)
            elif self.leaving >= len(self._queue) or not self._free_a_slot():
                return

    def _take_slot(self, cost_mib: float) -> Slot:
        slot = Slot(cost_mib)
        self.slots.add(slot)
        self._taken, self._taken_mib = self._taken + 1, self._taken_mib + cost_mib
        return slot

    def _shortage(self, cost_mib: float) -> str:
        """Return which resource is exhausted and what to do, if one more sandbox does not fit; else ""."""
        alive = len(self.slots)
        if self._max_alive is not None and alive >= self._max_alive:
            return (
                f"the pool: all {self._max_alive} sandboxes it may have alive (max_alive) are in use. Close sandboxes "
                "as soon as they are not needed, run fewer episodes at once, or raise max_alive"
            )
        now = time.monotonic()
        if now >= self._headroom_until:
            self._headroom, self._headroom_until = measure_headroom(), now + _HEADROOM_S
            self._taken, self._taken_mib = 0, 0.0
            free_mib = self._headroom.memory_mib - self._headroom.memory_kept_mib
            self._budget_mib = max(free_mib, self._budget_mib if alive else 0.0)
        taken_mib = sum(slot.cost_mib for slot in self.slots)
        if alive and taken_mib + cost_mib > self._budget_mib:
            return (
                f"memory: the {alive} sandboxes alive are going to take {taken_mib:.0f} of the {self._budget_mib:.0f} "
                f"MiB there are, and one more needs {cost_mib:.0f}. Run fewer at once, or lower memory_mib"
            )
        return self._headroom.shortage(cost_mib=cost_mib, taken_mib=self._taken_mib, taken=self._taken)

    def _timeout_message(self, waiter: _Waiter) -> str:
        if waiter.rejected:
            return f"No sandbox: {waiter.rejected}."
        with self._lock:
            what = self._shortage(waiter.cost_mib()) or "nothing now; earlier callers were served first"
            return (
                f"No sandbox could be had within {self._wait_s:g} s (wait_s): {len(self.slots)} are alive, "
                f"{len(self._queue)} wait for one. Exhausted: {what}."
            )


def _wake(waiter: _Waiter) -> bool:
    try:
        waiter.loop.call_soon_threadsafe(waiter.woken.set)
    except RuntimeError:  # the caller's event loop is closed, so it waits no more
        return False
    return True
