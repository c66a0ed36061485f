"""A backend on top of another backend: keeps sandboxes ready ahead of time, and limits how many are alive.

    pool = Pool(NamespacesBackend(), ready=8)
    environment = agentgym.make("agentgym/code-v1", backend=pool)

A sandbox is handed out once: it is closed when it comes back, and new ones are created in the background. If there is
no room, a request waits in a fair order and for a limited time.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any

from agentgym.errors import SandboxError, SandboxUnavailable
from agentgym.sandbox.contract import Backend, Capabilities, Running, Sandbox, Snapshot
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.pool.admission import Admission, Loop, Slot
from agentgym.sandbox.pool.lease import Lease, TenantView
from agentgym.sandbox.pool.stats import PoolStats, WaitTimes
from agentgym.sandbox.pool.warm_set import WarmSet


class Pool:
    """Hands out sandboxes of another backend. The pool owns that backend: closing the pool closes the backend.

    One instance serves any number of event loops, also concurrently. Safe to cancel anywhere.
    Args:
        ready: sandboxes kept ready per spec, once it is requested repeatedly.
        max_alive: maximum of sandboxes alive at once, including ready ones; None for as many as the machine can hold.
        lease_s: how long a caller may hold a sandbox. Then it is closed, and the next call raises SandboxDied.
        wait_s: how long `create` waits for room before it raises SandboxUnavailable.
        idle_s: after this time without a request, sandboxes of a spec are no longer kept ready.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        ready: int = 8,
        max_alive: int | None = None,
        lease_s: float = 3600.0,
        wait_s: float = 120.0,
        idle_s: float = 60.0,
    ) -> None:
        """Make a pool. Raises: ValueError for a number out of range."""
        for name, value, least in (("ready", ready, 0), ("max_alive", 1 if max_alive is None else max_alive, 1)):
            if value < least:
                raise ValueError(f"Pool({name}={value}) is not valid: give {least} or more.")
        for name, seconds in (("lease_s", lease_s), ("wait_s", wait_s), ("idle_s", idle_s)):
            if not seconds > 0:
                raise ValueError(f"Pool({name}={seconds}) is not valid: give a number of seconds above 0.")
        self.backend, self.name = backend, f"pool of {backend.name}"
        self.has_relay = getattr(backend, "has_relay", False)
        self._ready, self._max_alive = ready, max_alive
        self._lease_s, self._wait_s, self._idle_s = lease_s, wait_s, idle_s
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._admission = Admission(self._lock, self._max_alive, self._wait_s, self._free_a_slot)
        self._warm_sets: dict[Hashable, WarmSet] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Each event is set when the sandbox that a caller waits for has been created, or its creation has failed.
        self._creating: dict[asyncio.Event, Loop] = {}
        self._close_count = 0
        self._shrinking: weakref.WeakSet[Loop] = weakref.WeakSet()
        self._counts = dict.fromkeys(("created", "hits", "misses", "died", "expired", "evicted"), 0)
        self._waits = WaitTimes()

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        """Return an unused sandbox: a ready one that answers, or else a new one as soon as there is room.

        Raises: SandboxUnavailable, which names the exhausted resource and what to do; LimitUnenforceable.
        """
        return await self.lease(spec, snapshot=snapshot)

    async def lease(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None, tenant: str = "") -> Lease:
        """Create a sandbox for one of several tenants, which take turns when there is not enough room for all."""
        await self._restart_after_fork()
        began = time.monotonic()
        with self._lock:
            warm_set, close_count = self._warm_set_of(spec, snapshot), self._close_count
            warm_set.ask(began)
        slot = await self._take_warm(warm_set)
        was_ready = slot is not None
        if slot is None:
            slot = await self._admission.enter(tenant, warm_set.key, lambda: warm_set.cost_mib)
            await self._create_for_waiter(warm_set, slot, close_count)
        with self._lock:
            self._counts["hits" if was_ready else "misses"] += 1
            if not was_ready:
                warm_set.missed(self._ready)
            self._waits.add(time.monotonic() - began)
            lease = self._lease_slot(warm_set, slot)
        asyncio.get_running_loop().call_soon(self._restock, warm_set)  # so that the caller goes first
        return lease

    async def warm(self, spec: SandboxSpec, count: int, *, snapshot: Snapshot | None = None) -> None:
        """Create `count` sandboxes in advance, and keep that many ready until there is no request for `idle_s`.

        Raises: SandboxUnavailable, LimitUnenforceable.
        """
        await self._restart_after_fork()
        with self._lock:
            warm_set = self._warm_set_of(spec, snapshot)
            warm_set.requested_at, warm_set.target = time.monotonic(), max(warm_set.target, count)
            missing = count - len(warm_set.ready) - len(warm_set.pending)
        failures = await asyncio.gather(
            *(self._add_warm(warm_set, None) for _ in range(missing)), return_exceptions=True
        )
        self._shrink_later()
        for failure in failures:
            if failure is not None:
                raise failure

    def for_tenant(self, tenant: str) -> Backend:
        """Return this pool as the backend of one tenant, such as evaluation beside training. Tenants take turns."""
        return TenantView(self, partial(self.lease, tenant=tenant))

    def stats(self) -> PoolStats:
        """Return counts of sandboxes and waiting times, for logs."""
        with self._lock:
            ready = sum(len(warm_set.ready) for warm_set in self._warm_sets.values())
            leased = sum(slot.lease is not None for slot in self._admission.slots)
            return PoolStats(
                ready=ready,
                leased=leased,
                changing=len(self._admission.slots) - ready - leased,
                waiting=self._admission.waiting,
                wait_s=self._waits.percentiles(),
                **self._counts,
            )

    async def probe(self) -> Capabilities:
        """Return what the pool's backend can enforce."""
        return await self.backend.probe()

    async def running(self) -> list[Running]:
        return await self.backend.running()

    async def clean(self) -> list[str]:
        return await self.backend.clean()

    async def close(self) -> None:
        """Close every sandbox, ready or held, and the pool's backend. The pool may be used again afterwards."""
        await self._restart_after_fork()
        self._admission.reject_all("the pool was closed meanwhile")
        with self._lock:
            self._close_count += 1
            self._warm_sets.clear()  # a sandbox still being created finds its warm set gone, and is closed
            tasks, slots = list(self._tasks), list(self._admission.slots)
        here = asyncio.get_running_loop()
        creating = [finished.wait() for finished, loop in list(self._creating.items()) if loop is here]
        for task in tasks:
            if task.get_loop() is here:
                task.cancel()
            elif task.get_loop().is_running():
                task.get_loop().call_soon_threadsafe(task.cancel)
        await asyncio.gather(*(task for task in tasks if task.get_loop() is here), return_exceptions=True)
        try:
            await asyncio.gather(*creating)  # closing the backend earlier would make it start again
            await asyncio.gather(*(self._end(slot) for slot in slots))
        finally:
            await self.backend.close()

    # Warm sets

    def _warm_set_of(self, spec: SandboxSpec, snapshot: Snapshot | None) -> WarmSet:
        key = (spec, snapshot and (snapshot.backend, snapshot.id))
        if key not in self._warm_sets:
            self._warm_sets[key] = WarmSet(key, spec, snapshot)
        return self._warm_sets[key]

    async def _take_warm(self, warm_set: WarmSet) -> Slot | None:
        """Remove dead ready sandboxes until one is alive, and return that one; None if there is none."""
        while True:
            with self._lock:
                slot = None if self._admission.waiting else warm_set.take()
            if slot is None:
                return None
            try:
                if await slot.answers():
                    return slot
                with self._lock:
                    self._counts["died"] += 1
            except BaseException:
                await self._end(slot)
                raise
            await self._end(slot)

    async def _create_for_waiter(self, warm_set: WarmSet, slot: Slot, close_count: int) -> None:
        """Fill a slot for a waiting caller. Raises: SandboxUnavailable if the pool is closed meanwhile."""
        finished = asyncio.Event()
        self._creating[finished] = asyncio.get_running_loop()
        try:
            await self._fill(warm_set, slot)
            if self._close_count != close_count:
                await self._end(slot)
                raise SandboxUnavailable("The pool was closed while it created a sandbox.")
        finally:
            del self._creating[finished]
            finished.set()

    async def _fill(self, warm_set: WarmSet, slot: Slot) -> None:
        """Create a sandbox in a slot; release the slot if that fails."""
        try:
            slot.sandbox = await self.backend.create(warm_set.spec, snapshot=warm_set.snapshot)
        except BaseException:
            self._admission.release(slot)
            raise
        slot.loop = asyncio.get_running_loop()
        with self._lock:
            self._counts["created"] += 1

    def _restock(self, warm_set: WarmSet) -> None:
        """Start to create the sandboxes missing from a warm set, as long as there is room and no request waits."""
        with self._lock:
            if warm_set.paused_until > time.monotonic() or self._warm_sets.get(warm_set.key) is not warm_set:
                return
            usable = sum(warm_set.usable(slot) for slot in warm_set.ready)
            for _ in range(warm_set.target - usable - len(warm_set.pending)):
                slot = self._admission.try_enter(warm_set.cost_mib)
                if slot is None:
                    break
                warm_set.pending.add(slot)
                self._in_background(
                    self._restock_one(warm_set, slot), None, partial(self._restock_done, warm_set, slot)
                )
        self._shrink_later()

    async def _restock_one(self, warm_set: WarmSet, slot: Slot) -> None:
        """Create one sandbox in the background. After a failure, which only a request reports, try again later."""
        try:
            await self._add_warm(warm_set, slot)
            warm_set.resume()
        except SandboxError:
            pause_s = warm_set.pause(time.monotonic())
            asyncio.get_running_loop().call_later(pause_s, self._restock, warm_set)

    async def _add_warm(self, warm_set: WarmSet, slot: Slot | None) -> None:
        """Create a sandbox and add it to the warm set."""
        if slot is None:
            slot = await self._admission.enter("", warm_set.key, lambda: warm_set.cost_mib)
        await self._fill(warm_set, slot)
        with self._lock:
            if still_wanted := self._warm_sets.get(warm_set.key) is warm_set:
                warm_set.ready.append(slot)
                warm_set.pending.discard(slot)  # now, because a caller may take it before this task has ended
                self._admission.pump()  # a waiting caller may need the room at once
        if not still_wanted:
            await self._end(slot)

    def _restock_done(self, warm_set: WarmSet, slot: Slot) -> None:
        """Record that the task filling a slot has ended; release the slot if the task was cancelled before it began."""
        with self._lock:
            warm_set.pending.discard(slot)
            if slot.sandbox is None:
                self._admission.release(slot)

    def _shrink_later(self) -> None:
        """Schedule a check for idle sandboxes in this event loop."""
        here = asyncio.get_running_loop()
        if here not in self._shrinking:
            self._shrinking.add(here)
            here.call_later(self._idle_s / 2, self._shrink, here)

    def _shrink(self, here: Loop) -> None:
        self._shrinking.discard(here)
        with self._lock:
            for warm_set in list(self._warm_sets.values()):
                if time.monotonic() - warm_set.requested_at < self._idle_s:
                    continue
                warm_set.target = 0
                while (slot := warm_set.take()) is not None:
                    self._evict(warm_set, slot)
                if warm_set.snapshot is not None and not (warm_set.ready or warm_set.pending):
                    del self._warm_sets[warm_set.key]  # snapshots are large, and few are requested again
            if any(warm_set.ready or warm_set.pending or warm_set.snapshot for warm_set in self._warm_sets.values()):
                self._shrink_later()

    def _free_a_slot(self) -> bool:
        """End a lease that ran out unnoticed or, if there is none, a ready sandbox of the least recently requested warm
        set.

        Returns: False if there is neither.
        """
        for slot in self._admission.slots:
            if slot.lease is not None and slot.lease.remaining_s <= 0 and not slot.lease.expired:
                self._expire(slot.lease)
                return True
        for warm_set in sorted(self._warm_sets.values(), key=lambda warm_set: warm_set.requested_at):
            if warm_set.ready:
                self._evict(warm_set, warm_set.ready.popleft())
                return True
        return False

    def _evict(self, warm_set: WarmSet, slot: Slot) -> None:
        self._admission.leaving += 1
        self._counts["evicted"] += 1

        def evicted() -> None:
            with self._lock:
                self._admission.leaving -= 1
                if slot in self._admission.slots:  # the task was cancelled before it began
                    warm_set.ready.append(slot)
                self._admission.pump()

        self._in_background(self._end(slot), slot.loop, evicted)

    # Leases

    def _lease_slot(self, warm_set: WarmSet, slot: Slot) -> Lease:
        assert slot.sandbox is not None

        def returned(lease: Lease) -> None:
            with self._lock:
                if slot.timer is not None:
                    slot.timer.cancel()
                self._counts["died"] += lease.died
                warm_set.learn(lease.peak_mib)
                self._admission.release(slot)

        slot.lease = Lease(slot.sandbox, self._lease_s, returned)
        self._watch(slot, slot.lease)
        return slot.lease

    def _watch(self, slot: Slot, lease: Lease) -> None:
        """End the lease when it runs out, unless it is closed or extended before."""

        def look() -> None:
            if lease.remaining_s > 0:
                self._watch(slot, lease)
            elif not (lease.closed or lease.expired):
                self._expire(lease)

        slot.timer = asyncio.get_running_loop().call_later(max(lease.remaining_s, 0.0), look)

    def _expire(self, lease: Lease) -> None:
        with self._lock:
            self._counts["expired"] += 1
            lease.expired = True
        self._in_background(lease.expire(), lease.loop)

    # Event loops and processes

    async def _end(self, slot: Slot) -> None:
        """Close a slot's sandbox in its event loop, and release the slot."""
        sandbox = slot.lease or slot.sandbox
        loop = slot.lease.loop if slot.lease is not None else slot.loop
        try:
            if sandbox is None:
                return
            if loop is None or loop is asyncio.get_running_loop() or not loop.is_running():
                await sandbox.close()
            else:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(sandbox.close(), loop))
        finally:
            self._admission.release(slot)

    def _in_background(
        self, work: Coroutine[Any, Any, None], loop: Loop | None, then: Callable[[], None] | None = None
    ) -> None:
        """Run `work` in `loop` if that is running, else in this loop; then call `then`, even after cancellation."""

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                task.exception()  # the backend cleans up a sandbox that cannot be closed
            if then is not None:
                then()

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)
            task.add_done_callback(done)

        if loop is None or loop is asyncio.get_running_loop() or not loop.is_running():
            begin()
        else:
            loop.call_soon_threadsafe(begin)

    async def _restart_after_fork(self) -> None:
        """Reset the pool in a forked process, because the sandboxes belong to its parent."""
        if self._pid != os.getpid():
            inherited = [slot.sandbox for slot in self._admission.slots if slot.sandbox is not None]
            self._begin()
            await asyncio.gather(*(sandbox.close() for sandbox in inherited))
