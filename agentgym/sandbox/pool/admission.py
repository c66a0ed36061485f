"""Who may have a sandbox alive: as many as the machine has room for, the others wait in a fair order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.contract import Sandbox
from agentgym.sandbox.pool.fair_queue import FairQueue
from agentgym.sandbox.pool.headroom import Headroom, measure_headroom
from agentgym.sandbox.pool.lease import Lease

_LOOK_S = 0.25  # how often those who wait look whether the machine has room again
_HEADROOM_S = 0.05  # how long a look at the machine holds

Loop = asyncio.AbstractEventLoop


@dataclass(eq=False)
class Slot:
    """The place of one sandbox among those alive, from before it is made until after it is gone.

    Attributes:
        cost_mib: memory that it is expected to take.
        loop: the event loop that used it last, if it is not leased.
    """

    cost_mib: float
    sandbox: Sandbox | None = None
    loop: Loop | None = None
    lease: Lease | None = None
    timer: asyncio.TimerHandle | None = None


@dataclass(eq=False)
class _Waiter:
    """Somebody who wants a place. `slot` is there once granted; `rejected` says why there will be none."""

    cost_mib: Callable[[], float]
    loop: Loop
    woken: asyncio.Event
    slot: Slot | None = None
    rejected: str = ""


class Admission:
    """Gives out places, and takes them back. Safe from any thread; everything is done under `lock`."""

    def __init__(self, lock: threading.RLock, max_alive: int | None, wait_s: float, free_a_slot: Callable[[], bool]):
        """`free_a_slot` begins to end a sandbox that nobody uses; False if there is none."""
        self._lock, self._max_alive, self._wait_s, self._free_a_slot = lock, max_alive, wait_s, free_a_slot
        self.slots: set[Slot] = set()
        self.leaving = 0  # sandboxes that are being ended to make room
        self._queue: FairQueue[_Waiter] = FairQueue()
        self._headroom, self._headroom_until = Headroom(), 0.0
        self._taken, self._taken_mib = 0, 0.0  # let in since the room was measured
        self._budget_mib = 0.0  # for all of ours together: the most that was ever seen to be free

    @property
    def waiting(self) -> int:
        return len(self._queue)

    async def enter(self, tenant: str, kind: Hashable, cost_mib: Callable[[], float]) -> Slot:
        """A place, at once or after waiting one's turn. Raises: SandboxUnavailable with what is exhausted."""
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
                    async with asyncio.timeout(min(deadline - time.monotonic(), _LOOK_S)):
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
        """A place, if there is one that nobody waits for."""
        with self._lock:
            return None if self._queue or self._shortage(cost_mib) else self._take_slot(cost_mib)

    def release(self, slot: Slot) -> None:
        """The sandbox of a place is gone. May be told twice."""
        with self._lock:
            if slot in self.slots:
                self.slots.discard(slot)
                self.pump()

    def reject_all(self, why: str) -> None:
        """Send everybody away who waits."""
        with self._lock:
            while self._queue:
                waiter = self._queue.pop()
                waiter.rejected = why
                _wake(waiter)

    def pump(self) -> None:
        """Give places to those whose turn it is. Nobody overtakes: a small one behind a large one waits as well."""
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
        """What is exhausted and what to do, if there is no room for one more; empty if there is."""
        alive = len(self.slots)
        if self._max_alive is not None and alive >= self._max_alive:
            return (
                f"the pool: all {self._max_alive} sandboxes it may have alive (max_alive) are in use. Close sandboxes "
                "as soon as they are done with, run fewer episodes at once, or raise max_alive"
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
                f"MiB there are, and one more {cost_mib:.0f}. Run fewer at once, or ask for less memory_mib"
            )
        return self._headroom.shortage(cost_mib=cost_mib, taken_mib=self._taken_mib, taken=self._taken)

    def _timeout_message(self, waiter: _Waiter) -> str:
        if waiter.rejected:
            return f"No sandbox: {waiter.rejected}."
        with self._lock:
            what = self._shortage(waiter.cost_mib()) or "nothing now; those who asked before were served first"
            return (
                f"No sandbox could be had within {self._wait_s:g} s (wait_s): {len(self.slots)} are alive, "
                f"{len(self._queue)} ask for one. Exhausted is {what}."
            )


def _wake(waiter: _Waiter) -> bool:
    try:
        waiter.loop.call_soon_threadsafe(waiter.woken.set)
    except RuntimeError:  # its event loop is closed: it waits no more
        return False
    return True
