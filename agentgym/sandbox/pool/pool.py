"""Sandboxes kept ready ahead of time, and a bound on how many there are: a backend over another backend.

    pool = Pool(NamespacesBackend(), ready=8)
    environment = agentgym.make("agentgym/code-v1", backend=pool)

A sandbox is handed out once and never again: what comes back is closed, and fresh ones are made in the background.
Whoever asks when nothing more fits waits, in a fair order and not for ever.
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
from agentgym.sandbox.pool.admission import Admission, Loop, Place
from agentgym.sandbox.pool.lease import Lease
from agentgym.sandbox.pool.owned import Owned
from agentgym.sandbox.pool.shelf import Shelf
from agentgym.sandbox.pool.stats import PoolStats, WaitTimes

_HEALTH_S = 5.0  # a sandbox that has not answered by then is not handed out


class Pool:
    """Hands out sandboxes of another backend, which it takes over and closes with itself.

    One instance serves any number of event loops, also at once, as backends do. Safe to cancel anywhere.

    Args:
        ready: sandboxes kept ready per spec, once it is asked for again and again.
        max_alive: sandboxes alive at once, those that lie ready included; None for as many as fit into the
            machine's memory, by what such sandboxes were seen to take so far, its descriptors and its processes.
        lease_s: how long a sandbox may be held. Then it is closed, and its holder's next call raises SandboxDied.
        wait_s: how long `create` waits for room before it raises SandboxUnavailable.
        idle_s: a spec that nobody has asked for so long is not kept ready any more.
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
        """Raises: ValueError for a number that makes no sense."""
        for name, value, least in (("ready", ready, 0), ("max_alive", 1 if max_alive is None else max_alive, 1)):
            if value < least:
                raise ValueError(f"Pool's {name} is {value}: give {least} or more.")
        for name, seconds in (("lease_s", lease_s), ("wait_s", wait_s), ("idle_s", idle_s)):
            if not seconds > 0:
                raise ValueError(f"Pool's {name} is {seconds}: give a number of seconds above 0.")
        self.backend, self.name = backend, f"pool of {backend.name}"
        self._ready, self._max_alive = ready, max_alive
        self._lease_s, self._wait_s, self._idle_s = lease_s, wait_s, idle_s
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._admission = Admission(self._lock, self._max_alive, self._wait_s, self._make_room)
        self._shelves: dict[Hashable, Shelf] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._making: dict[asyncio.Event, Loop] = {}  # set when what an asker waits for was made, or was not
        self._closings = 0
        self._shrinking: weakref.WeakSet[Loop] = weakref.WeakSet()
        self._counts = dict.fromkeys(("created", "hits", "misses", "died", "expired", "evicted"), 0)
        self._waits = WaitTimes()

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        """A fresh sandbox: one that lies ready and answers, else a new one, as soon as there is room.

        Raises: SandboxUnavailable with what is exhausted and what to do; LimitUnenforceable.
        """
        return await self.lease(spec, snapshot=snapshot)

    async def lease(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None, owner: str = "") -> Lease:
        """As `create`, for one of several owners who take turns when there is no room for all."""
        await self._leave_parent()
        began = time.monotonic()
        with self._lock:
            shelf, closings = self._shelf(spec, snapshot), self._closings
            shelf.ask(began)
        place = await self._from_shelf(shelf)
        found = place is not None
        if place is None:
            place = await self._admission.enter(owner, shelf.key, lambda: shelf.cost_mib)
            await self._made(shelf, place, closings)
        with self._lock:
            self._counts["hits" if found else "misses"] += 1
            if not found:
                shelf.missed(self._ready)
            self._waits.add(time.monotonic() - began)
            lease = self._lend(shelf, place)
        asyncio.get_running_loop().call_soon(self._restock, shelf)  # the asker goes first
        return lease

    async def warm(self, spec: SandboxSpec, count: int, *, snapshot: Snapshot | None = None) -> None:
        """Have `count` sandboxes lie ready before anybody asks, and as many again until nobody asks for `idle_s`.

        Raises: SandboxUnavailable, LimitUnenforceable.
        """
        await self._leave_parent()
        with self._lock:
            shelf = self._shelf(spec, snapshot)
            shelf.asked_at, shelf.target = time.monotonic(), max(shelf.target, count)
            missing = count - len(shelf.ready) - shelf.coming
        made = await asyncio.gather(*(self._stock(shelf, None) for _ in range(missing)), return_exceptions=True)
        self._shrink_later()
        for failure in made:
            if failure is not None:
                raise failure

    def owned_by(self, owner: str) -> Backend:
        """This pool as the backend of one owner, for example of evaluation beside training: owners take turns."""
        return Owned(self, owner)

    def stats(self) -> PoolStats:
        """How many there are of what, and how long askers waited; for logs."""
        with self._lock:
            ready = sum(len(shelf.ready) for shelf in self._shelves.values())
            leased = sum(place.lease is not None for place in self._admission.places)
            return PoolStats(
                ready=ready, leased=leased, changing=len(self._admission.places) - ready - leased,
                waiting=self._admission.waiting, wait_s=self._waits.percentiles(), **self._counts,
            )  # fmt: skip

    async def probe(self) -> Capabilities:
        """What the backend below can enforce."""
        return await self.backend.probe()

    async def running(self) -> list[Running]:
        return await self.backend.running()

    async def clean(self) -> list[str]:
        return await self.backend.clean()

    async def close(self) -> None:
        """Close every sandbox, ready or held, and the backend below. The pool may be used again afterwards."""
        await self._leave_parent()
        self._admission.refuse_all("the pool was closed meanwhile")
        with self._lock:
            self._closings += 1
            self._shelves.clear()  # what is still being made finds its shelf gone, and is closed again
            tasks, places = list(self._tasks), list(self._admission.places)
        here = asyncio.get_running_loop()
        making = [over.wait() for over, loop in list(self._making.items()) if loop is here]
        for task in tasks:
            if task.get_loop() is here:
                task.cancel()
            elif task.get_loop().is_running():
                task.get_loop().call_soon_threadsafe(task.cancel)
        await asyncio.gather(*(task for task in tasks if task.get_loop() is here), return_exceptions=True)
        try:
            await asyncio.gather(*making)  # the backend must not be closed under them: it would begin anew
            await asyncio.gather(*(self._end(place) for place in places))
        finally:
            await self.backend.close()

    # Shelves

    def _shelf(self, spec: SandboxSpec, snapshot: Snapshot | None) -> Shelf:
        key = (spec, snapshot and (snapshot.backend, snapshot.id))
        if key not in self._shelves:
            self._shelves[key] = Shelf(key, spec, snapshot)
        return self._shelves[key]

    async def _from_shelf(self, shelf: Shelf) -> Place | None:
        """One that lies ready and is alive; those that are dead are put away. None if there is none."""
        while True:
            with self._lock:
                place = None if self._admission.waiting else shelf.take()
            if place is None:
                return None
            try:
                if await _answers(place):
                    return place
                with self._lock:
                    self._counts["died"] += 1
            except BaseException:
                await self._end(place)
                raise
            await self._end(place)

    async def _made(self, shelf: Shelf, place: Place, closings: int) -> None:
        """Fill a place for an asker. Raises: SandboxUnavailable if the pool is closed before that is done."""
        over = asyncio.Event()
        self._making[over] = asyncio.get_running_loop()
        try:
            await self._make(shelf, place)
            if self._closings != closings:
                await self._end(place)
                raise SandboxUnavailable("No sandbox: the pool was closed meanwhile.")
        finally:
            del self._making[over]
            over.set()

    async def _make(self, shelf: Shelf, place: Place) -> None:
        """Fill a place with a new sandbox, or give the place back."""
        try:
            place.sandbox = await self.backend.create(shelf.spec, snapshot=shelf.snapshot)
        except BaseException:
            self._admission.leave(place)
            raise
        place.loop = asyncio.get_running_loop()
        with self._lock:
            self._counts["created"] += 1

    def _restock(self, shelf: Shelf) -> None:
        """Begin to make what the shelf lacks, as far as there is room that nobody waits for."""
        with self._lock:
            if shelf.paused_until > time.monotonic() or self._shelves.get(shelf.key) is not shelf:
                return
            usable = sum(shelf.usable(place) for place in shelf.ready)
            for _ in range(shelf.target - usable - shelf.coming):
                place = self._admission.enter_at_once(shelf.cost_mib)
                if place is None:
                    break
                shelf.coming += 1
                self._in_background(self._restocked(shelf, place), None, partial(self._stocked, shelf, place))
        self._shrink_later()

    async def _restocked(self, shelf: Shelf, place: Place) -> None:
        """Make one in the background. A failure is not told here: whoever asks next meets it."""
        try:
            await self._stock(shelf, place)
            shelf.resume()
        except SandboxError:
            shelf.pause(time.monotonic())

    async def _stock(self, shelf: Shelf, place: Place | None) -> None:
        """Make one, and put it on the shelf."""
        if place is None:
            place = await self._admission.enter("", shelf.key, lambda: shelf.cost_mib)
        await self._make(shelf, place)
        with self._lock:
            if kept := self._shelves.get(shelf.key) is shelf:
                shelf.ready.append(place)
                self._admission.pump()  # it may have to make room at once
        if not kept:
            await self._end(place)

    def _stocked(self, shelf: Shelf, place: Place) -> None:
        """The task that was to fill a place is over; cancelled before it began, it has not even given it back."""
        with self._lock:
            shelf.coming -= 1
            if place.sandbox is None:
                self._admission.leave(place)

    def _shrink_later(self) -> None:
        """See to it that this event loop comes back to what lies idle."""
        here = asyncio.get_running_loop()
        if here not in self._shrinking:
            self._shrinking.add(here)
            here.call_later(self._idle_s / 2, self._shrink, here)

    def _shrink(self, here: Loop) -> None:
        self._shrinking.discard(here)
        with self._lock:
            for shelf in list(self._shelves.values()):
                if time.monotonic() - shelf.asked_at < self._idle_s:
                    continue
                shelf.target = 0
                while (place := shelf.take()) is not None:
                    self._evict(shelf, place)
                if shelf.snapshot is not None and not (shelf.ready or shelf.coming):
                    del self._shelves[shelf.key]  # snapshots are large, and few come again
            if any(shelf.ready or shelf.coming or shelf.snapshot for shelf in self._shelves.values()):
                self._shrink_later()

    def _make_room(self) -> bool:
        """End a lease that nobody watched run out, or a ready sandbox of the shelf least recently asked for."""
        for place in self._admission.places:
            if place.lease is not None and place.lease.left_s <= 0 and not place.lease.expired:
                self._expire(place.lease)
                return True
        for shelf in sorted(self._shelves.values(), key=lambda shelf: shelf.asked_at):
            if shelf.ready:
                self._evict(shelf, shelf.ready.popleft())
                return True
        return False

    def _evict(self, shelf: Shelf, place: Place) -> None:
        self._admission.leaving += 1
        self._counts["evicted"] += 1

        def evicted() -> None:
            with self._lock:
                self._admission.leaving -= 1
                if place in self._admission.places:  # cancelled before it began
                    shelf.ready.append(place)
                self._admission.pump()

        self._in_background(self._end(place), place.loop, evicted)

    # Leases

    def _lend(self, shelf: Shelf, place: Place) -> Lease:
        assert place.sandbox is not None

        def returned(lease: Lease) -> None:
            with self._lock:
                if place.timer is not None:
                    place.timer.cancel()
                self._counts["died"] += lease.died
                shelf.learn(lease.peak_mib)
                self._admission.leave(place)

        place.lease = Lease(place.sandbox, self._lease_s, returned)
        self._watch(place, place.lease)
        return place.lease

    def _watch(self, place: Place, lease: Lease) -> None:
        """End the lease when its time is over, unless it is closed or extended before."""

        def look() -> None:
            if lease.left_s > 0:
                self._watch(place, lease)
            elif not (lease.closed or lease.expired):
                self._expire(lease)

        place.timer = asyncio.get_running_loop().call_later(max(lease.left_s, 0.0), look)

    def _expire(self, lease: Lease) -> None:
        with self._lock:
            self._counts["expired"] += 1
            lease.expired = True
        self._in_background(lease.expire(), lease.loop)

    # Event loops and processes

    async def _end(self, place: Place) -> None:
        """Close what is in a place, in the event loop it belongs to, and give the place back."""
        thing = place.lease or place.sandbox
        loop = place.lease.loop if place.lease is not None else place.loop
        try:
            if thing is None:
                return
            if loop is None or loop is asyncio.get_running_loop() or not loop.is_running():
                await thing.close()
            else:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(thing.close(), loop))
        finally:
            self._admission.leave(place)

    def _in_background(
        self, work: Coroutine[Any, Any, None], loop: Loop | None, then: Callable[[], None] | None = None
    ) -> None:
        """Run something in the given event loop if that runs, else in this one; and `then`, even if it is cancelled."""

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                task.exception()  # of a sandbox that cannot be closed; its backend looks after it
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

    async def _leave_parent(self) -> None:
        """In a forked process: begin anew; the sandboxes are its parent's."""
        if self._pid != os.getpid():
            inherited = [place.sandbox for place in self._admission.places if place.sandbox is not None]
            self._begin()
            await asyncio.gather(*(sandbox.close() for sandbox in inherited))


async def _answers(place: Place) -> bool:
    """It is alive and serves requests."""
    assert place.sandbox is not None
    place.loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_HEALTH_S):
            await place.sandbox.usage()
    except (SandboxError, TimeoutError):
        return False
    return True
