"""HostPool: one checked host on each live node of a cluster. Nodes come and go, and hosts that die are replaced."""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from agentgym.cluster.backoff import Backoff
from agentgym.cluster.host_link import SILENCE_S, HostLink, HostNode, HostWatch, in_short
from agentgym.errors import ClusterError

SCAN_S = 1.0
"""The interval of looks at the nodes and their hosts."""
SLOW_S = 20.0
"""A host that needs longer to start is named. A run that has other hosts begins without it."""
SOON_S = 5.0
"""A host that is lost sooner after its start counts as a failure in a row."""
NAMED_AFTER = 3
"""After so many failures in a row a node is named. A node whose facts forbid its use is named at once."""
PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""The first and the longest pause before a host is started again."""
END_S = 5.0
"""How long the pool's thread, which may wait for the cluster's answer, has to end."""
_LOGGER = logging.getLogger(__name__)
L = TypeVar("L", bound=HostLink)


@dataclass
class _NodeState:
    """What the pool knows of a node.

    Attributes:
        starting: the start under way. ready_at: when the last one ended.
        fault: why the node is named; "" while it is not.
        is_certain: whether the node's facts are the fault. Otherwise its hosts broke, maybe because the node is dead.
    """

    node: str
    pauses: Backoff = field(default_factory=lambda: Backoff(PAUSE_S, LONGEST_PAUSE_S))
    starting: asyncio.Task[None] | None = None
    ready_at: float = 0.0
    fault: str = ""
    is_certain: bool = False


class HostPool(Generic[L]):
    """Keeps one host running on every live node, from a thread of its own.

    Args:
        nodes: returns the live nodes.
        start: starts a host on a node without waiting for it.
        check: waits for a host. It returns why its node cannot be used, "" if it can, and raises if the host broke.
        silence_s: a host that answers no heartbeat for this long is abandoned.

    Attributes:
        links: the ready hosts by node id. Some may be lost, for a second at most.
        is_open: whether `open` has checked the first nodes.
    """

    def __init__(
        self,
        nodes: Callable[[], Sequence[HostNode]],
        start: Callable[[HostNode], L],
        check: Callable[[L], Awaitable[str]],
        silence_s: float = SILENCE_S,
    ) -> None:
        self._nodes, self._start, self._check = nodes, start, check
        self._host_watch = HostWatch(silence_s)
        self.links: dict[str, L] = {}
        self._lost: list[str] = []  # of hosts that have left `links`
        self.is_open = False
        self._states: dict[str, _NodeState] = {}
        self._has_scanned = False
        self._lock = threading.Lock()
        self._refusal = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop = asyncio.Event()

    @property
    def alive(self) -> list[L]:
        """The hosts that can be used now."""
        return [link for link in [*self.links.values()] if not link.lost]

    @property
    def lost(self) -> list[str]:
        """Why each ready host that is gone was abandoned."""
        return [*self._lost, *(link.lost for link in [*self.links.values()] if link.lost)]

    async def open(self) -> None:
        """Start the hosts, unless they run. Wait until each is ready, or for `SLOW_S` seconds if another is.

        Raises: ClusterError naming every node that cannot be used, and why. Nodes that join later are logged instead.
        """
        if self.is_open:
            return
        with self._lock:
            if self._thread is None:
                self._loop, self._stop, self._refusal = asyncio.new_event_loop(), asyncio.Event(), ""
                arguments = (self._loop,)
                self._thread = threading.Thread(target=self._run, args=arguments, name="agentgym-nodes", daemon=True)
                self._thread.start()
                atexit.register(self._end_threads)  # before Ray leaves the cluster: a late call would start another one
        late_at = time.monotonic() + SLOW_S
        while not self._has_settled(is_late=time.monotonic() > late_at):  # noqa: ASYNC110  by another thread
            await asyncio.sleep(0.05)
        if faults := [f"{state.node}: {state.fault}" for state in [*self._states.values()] if state.fault]:
            self._refusal = "These nodes cannot be used: " + " ".join(faults)
            await self.close()
        if self._thread is None:  # closed, here or by another caller
            raise ClusterError(self._refusal or "The cluster's workers were ended while they started.")
        self.is_open = True

    async def close(self) -> None:
        """End every host. The cluster itself keeps running."""
        await asyncio.to_thread(self._end_threads)
        self._lost = self.lost
        links, self.links = [*self.links.values()], {}
        self._states, self._has_scanned, self.is_open = {}, False, False
        await self.end(links)

    async def end(self, links: Iterable[L]) -> None:
        """Close hosts and end their processes."""
        for link in (links := [*links]):
            self._host_watch.watch(link)
        await asyncio.gather(*(link.ask("close") for link in links), return_exceptions=True)
        await asyncio.to_thread(self._host_watch.end)
        for link in links:
            link.lose("it was closed")
        await asyncio.gather(*(link.ended() for link in links))

    def _has_settled(self, *, is_late: bool) -> bool:
        states = [*self._states.items()]
        if self._thread is None or (is_late and (self.alive or any(state.fault for _, state in states))):
            return True
        return self._has_scanned and all(state.is_certain or node_id in self.links for node_id, state in states)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self.heal())
        finally:
            loop.close()

    def _end_threads(self) -> None:
        """Stop replacing hosts and asking whether they are alive."""
        with self._lock:
            if self._thread is not None and self._loop is not None:
                atexit.unregister(self._end_threads)
                with suppress(RuntimeError):  # the thread has ended
                    self._loop.call_soon_threadsafe(self._stop.set)
                self._thread.join(END_S)
            self._thread = None
        self._host_watch.end()

    async def heal(self) -> None:
        """Start and replace hosts until the pool is closed."""
        async with asyncio.TaskGroup() as group:
            while not self._stop.is_set():
                self._scan(group)
                with suppress(TimeoutError):
                    async with asyncio.timeout(SCAN_S):
                        await self._stop.wait()
            for state in self._states.values():
                if state.starting is not None:
                    state.starting.cancel()

    def _scan(self, group: asyncio.TaskGroup) -> None:
        """Drop lost hosts, and start one on each live node that has none and does not pause."""
        now = asyncio.get_running_loop().time()
        for node_id, link in [*self.links.items()]:
            state = self._states.setdefault(node_id, _NodeState(link.node.name))
            if now - state.ready_at > SOON_S:
                state.pauses.succeed()
                state.fault, state.is_certain = "", False
            if link.lost:
                del self.links[node_id]
                self._lost.append(link.lost)
                self._fail(link.node, state, link.lost, NAMED_AFTER)
        try:
            nodes = {node.id: node for node in self._nodes()}
        except Exception as error:  # noqa: BLE001  the next look may succeed
            _LOGGER.debug("The nodes of the cluster could not be listed: %s", error)
            return
        for gone in self._states.keys() - nodes.keys():
            if (starting := self._states.pop(gone).starting) is not None:
                starting.cancel()
        for node in nodes.values():
            state = self._states.setdefault(node.id, _NodeState(node.name))
            if node.id not in self.links and state.starting is None and now >= state.pauses.until:
                state.starting = group.create_task(self._start_on(node, state))
        self._has_scanned = True

    async def _start_on(self, node: HostNode, state: _NodeState) -> None:
        loop, named_after = asyncio.get_running_loop(), 1
        link: L | None = None
        slow = loop.call_later(SLOW_S, _warn_of_slow, node)
        try:
            link = self._start(node)
            fault = await self._check(link)
        except asyncio.CancelledError:
            if link is not None:
                link.lose("its start was cancelled")
            raise
        except Exception as error:  # noqa: BLE001  after any error another host is started
            fault = str(error) if isinstance(error, ClusterError) else in_short(error)
            named_after = NAMED_AFTER
        finally:
            slow.cancel()
            state.starting = None
        if link is not None:
            if not fault:
                state.ready_at, self.links[node.id] = loop.time(), link
                self._host_watch.watch(link)
                return
            link.lose(fault)
        self._fail(node, state, fault, named_after)

    def _fail(self, node: HostNode, state: _NodeState, reason: str, named_after: int) -> None:
        """Begin a pause of the node. Name it after so many failures in a row, once, until it is healthy."""
        now = asyncio.get_running_loop().time()
        state.pauses.fail(now)
        if state.fault or state.pauses.failures < named_after:
            return
        state.fault, state.is_certain = reason, named_after == 1
        if self.is_open:
            what = "cannot be used" if named_after == 1 else f"has lost {named_after} workers soon after their start"
            _LOGGER.warning(
                "The node %s %s (%s). It is tried again in %.0f s, and then after pauses that grow to %.0f s.",
                *(node.name, what, reason.removesuffix("."), state.pauses.until - now, LONGEST_PAUSE_S),
            )


def _warn_of_slow(node: HostNode) -> None:
    _LOGGER.warning(
        "The worker on the node %s has not started within %.0f s. It joins when it is ready.", node.name, SLOW_S
    )
