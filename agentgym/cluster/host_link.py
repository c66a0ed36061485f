"""The driver's way to its own process on a node, and the heartbeats that say whether it is there."""

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
"""A node that answers no heartbeat for so long is given up: within a beat more, so within 5 seconds."""
END_S = 5.0
"""How long `ended` waits."""


@dataclass(frozen=True, slots=True)
class HostNode:
    """Where a host runs.

    Attributes:
        id: what the cluster calls it. name: for messages, such as its address. cpus: that it has, at least 1.
    """

    id: str
    name: str
    cpus: int


class RemoteHost(Protocol):
    """Carries calls to the process on a node. It may be used from any thread."""

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method there, and wait for nothing.

        The future raises NodeLost with the reason if the answer is lost, and NodeFailed if the host is there and could
        not do this.
        """

    def beat(self) -> Future[Any]:
        """Call `beat` there, which is answered however busy the host is."""

    def end(self) -> None:
        """End the process, and wait for that."""


class HostLink:
    """The way to the host on one node: a SandboxHost or an EpisodeWorker. It may be used from any event loop.

    Attributes:
        lost: why it was given up, once it was.
        answered_at: when it last answered a heartbeat, by the monotonic clock.
    """

    def __init__(self, node: HostNode, host: RemoteHost) -> None:
        self.node, self.host = node, host
        self.lost = ""
        self.answered_at = time.monotonic()
        self._waiting: dict[asyncio.Future[Any], asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()
        self._ending: threading.Thread | None = None

    def send(self, method: str, *arguments: Any) -> None:
        """Call a method of the host, and wait for nothing."""
        if not self.lost:
            self.host.call(method, *arguments)

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the host, once.

        Raises: NodeLost if the answer is lost or the host is given up: what was asked may have been done, so it is
            never sent again. NodeFailed if the host is there, and could not do this.
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
        """Give the host up: every wait for an answer ends with NodeLost."""
        if isinstance(reason, BaseException):
            reason = str(reason) if isinstance(reason, NodeLost) else in_short(reason)
        with self._lock:
            if self.lost:
                return
            self.lost = f"The node {self.node.name} is lost ({reason})."
            waiting, self._waiting = self._waiting, {}
        for answer, loop in waiting.items():
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_fail, answer, NodeLost(self.lost))
        self._ending = threading.Thread(target=self.host.end, name="agentgym-kill", daemon=True)
        self._ending.start()

    async def ended(self) -> None:
        """Wait until the host that was given up is ended, if its cluster answers; after a while its lease ends it."""
        if self._ending is not None:
            await asyncio.to_thread(self._ending.join, END_S)


class HostWatch:
    """A thread that asks every host whether it is there. The event loops of the driver may be busy.

    Args:
        silence_s: a host that has answered nothing for so long is given up. Time in which this process itself stood
            still does not count.
        beat_s: how often to ask.
    """

    def __init__(self, silence_s: float = SILENCE_S, beat_s: float = BEAT_S) -> None:
        self._silence_s, self._beat_s = silence_s, beat_s
        self._links: WeakSet[HostLink] = WeakSet()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def watch(self, link: HostLink) -> None:
        """Begin to ask a host."""
        self._links.add(link)
        if self._thread is None:
            self._stop = threading.Event()
            arguments = (self._stop,)
            self._thread = threading.Thread(target=self._run, args=arguments, name="agentgym-heartbeats", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Stop asking the hosts."""
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
                if late_s > self._beat_s:  # this process was stopped, or had no processor
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
        except Exception as error:  # noqa: BLE001  its cluster is being shut down, or it is known to be dead
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

    with suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(settle)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
