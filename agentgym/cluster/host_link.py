"""The driver's connection to its process on a node, and the heartbeats that check whether it is alive."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakSet

from agentgym.errors import NodeFailed, NodeLost

BEAT_S = 1.0
SILENCE_S = 4.0
"""A node that answers no heartbeat for this long is abandoned at the next beat."""
END_S = 5.0
"""How long `HostLink.ended` waits, in seconds."""


@dataclass(frozen=True, slots=True)
class HostNode:
    """Where a host runs.

    Attributes:
        id: the cluster's id for it. name: a name for messages, such as its address. cpus: its CPUs, at least 1.
    """

    id: str
    name: str
    cpus: int


class RemoteHost(Protocol):
    """Carries calls to the process on a node. Thread-safe."""

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the process on the node without waiting.

        The future raises NodeLost with the reason if the answer is lost, and NodeFailed if the host is alive but failed
        to run the method.
        """

    def beat(self) -> Future[Any]:
        """Call `beat` of the process on the node, which even a busy host answers."""

    def end(self) -> None:
        """End the process, and wait until it has ended."""


class HostLink:
    """The connection to the host on one node: a SandboxHost or an EpisodeWorker. Usable from any event loop.

    Attributes:
        lost: why the host was abandoned; empty until then.
        answered_at: when it last answered, by the monotonic clock.
        has_told_relay: whether a warning has said that its node does not reach the policy's server.
    """

    def __init__(self, node: HostNode, host: RemoteHost) -> None:
        self.node, self.host = node, host
        self.lost, self.has_told_relay = "", False
        self.answered_at = time.monotonic()
        self._waiting: dict[asyncio.Future[Any], asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()
        self._ending: threading.Thread | None = None

    def send(self, method: str, *arguments: Any) -> None:
        """Call a method of the host without waiting."""
        if not self.lost:
            self.host.call(method, *arguments)

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the host, once.

        Raises: NodeLost if the answer is lost or the host is abandoned: the call may have run, so it is never sent
            again. NodeFailed if the host is alive but failed to run the method.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            if self.lost:
                raise NodeLost(self.lost)
            self._waiting[answer] = loop
        try:
            self.host.call(method, *arguments).add_done_callback(lambda done: _hand_over(loop, answer, done))
            return await answer
        except NodeFailed as error:
            raise NodeFailed(f"{method} failed on the node {self.node.name}: {error}") from error
        except NodeLost as error:
            self.lose(str(error))
            raise NodeLost(self.lost) from error
        finally:
            with self._lock:
                self._waiting.pop(answer, None)

    def lose(self, reason: BaseException | str) -> None:
        """Give up the host: every pending `ask` raises NodeLost."""
        if isinstance(reason, BaseException):
            reason = str(reason) if isinstance(reason, NodeLost) else in_short(reason)
        with self._lock:
            if self.lost:
                return
            self.lost = f"The node {self.node.name} is lost ({reason})."
            waiting, self._waiting = self._waiting, {}
        for answer, loop in waiting.items():
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_fail, answer, NodeLost(self.lost))
        self._ending = threading.Thread(target=self.host.end, name="agentgym-kill", daemon=True)
        self._ending.start()

    async def ended(self) -> None:
        """Wait at most `END_S` seconds until the given-up host has ended; otherwise its lease ends it later."""
        if self._ending is not None:
            await asyncio.to_thread(self._ending.join, END_S)


class HostWatch:
    """A thread that checks whether every host is alive, since the driver's event loops may be busy.

    Args:
        silence_s: a host that is silent for this long is abandoned. Time in which this process itself was stopped
            does not count.
        beat_s: the interval of heartbeats.
    """

    def __init__(self, silence_s: float = SILENCE_S, beat_s: float = BEAT_S) -> None:
        self._silence_s, self._beat_s = silence_s, beat_s
        self._links: WeakSet[HostLink] = WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def watch(self, link: HostLink) -> None:
        """Start checking a host, which has just answered."""
        link.answered_at = time.monotonic()
        with self._lock:
            self._links.add(link)
            if self._thread is None:
                self._stop = threading.Event()
                arguments = (self._stop,)
                thread = threading.Thread(target=self._run, args=arguments, name="agentgym-heartbeats", daemon=True)
                self._thread = thread
                thread.start()

    def end(self) -> None:
        """Stop checking all hosts."""
        with self._lock:
            self._stop.set()
            if self._thread is not None:
                self._thread.join()
            self._thread = None
            self._links.clear()

    def _run(self, stop: threading.Event) -> None:
        woken_at = time.monotonic()
        while not stop.wait(self._beat_s):
            late_s = time.monotonic() - woken_at - self._beat_s
            woken_at = time.monotonic()
            for link in [*self._links]:
                if late_s > self._beat_s:  # this process was stopped, or got no CPU time
                    link.answered_at = min(woken_at, link.answered_at + late_s)
                if link.lost:
                    self._links.discard(link)
                elif (silent_s := woken_at - link.answered_at) > self._silence_s:
                    link.lose(f"it has answered no heartbeat for {silent_s:.0f} s")
                else:
                    self._ask(link)

    def _ask(self, link: HostLink) -> None:
        try:
            beat = link.host.beat()
        except Exception as error:  # noqa: BLE001  the cluster is shutting down, or the host is known to be dead
            link.lose(error)
            return

        def note(done: Any) -> None:
            if (error := done.exception()) is not None:
                link.lose(error)
            else:
                link.answered_at = time.monotonic()

        beat.add_done_callback(note)


def in_short(error: BaseException) -> str:
    """Return the class of an error, and the first line of its message."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def _hand_over(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any], done: Future[Any]) -> None:
    def settle() -> None:
        if not answer.done():
            error = done.exception()
            answer.set_result(done.result()) if error is None else answer.set_exception(error)

    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(settle)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
