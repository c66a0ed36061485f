"""The driver's way to one SandboxHost on a Ray cluster, and the heartbeats that say whether it is still there."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from agentgym.cluster.ray_nodes import RayNode, import_ray
from agentgym.errors import SandboxDied

BEAT_S = 1.0
SILENCE_S = 4.0
"""A node that answers no heartbeat for so long is given up: within a beat more, so within 5 seconds."""
HEARTBEATS = "heartbeats"
"""The concurrency group of an actor that answers heartbeats on a thread of its own, however busy its event loop is."""


class HostLink:
    """The way to the host on one node. It may be used from any event loop.

    Attributes:
        sandboxes: how many it has, or is making.
        lost: why it was given up, once it was.
        answered_at: when it last answered a heartbeat, by the monotonic clock.
    """

    def __init__(self, node: RayNode, actor: Any) -> None:
        self.node, self.actor = node, actor
        self.sandboxes = 0
        self.lost = ""
        self.answered_at = time.monotonic()
        self._numbers = itertools.count()
        self._waiting: dict[asyncio.Future[Any], asyncio.AbstractEventLoop] = {}
        self._lock = threading.Lock()

    @property
    def load(self) -> float:
        return self.sandboxes / self.node.cpus

    def next_number(self) -> int:
        """A number for a call, by which it can be cancelled."""
        return next(self._numbers)

    def send(self, method: str, *arguments: Any) -> None:
        """Call a method of the host, and wait for nothing."""
        if not self.lost:
            getattr(self.actor, method).remote(*arguments)

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the host, once.

        Raises: SandboxDied if the answer is lost or the host is given up: what was asked may have been done, so it is
            never sent again.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            if self.lost:
                raise SandboxDied(self.lost)
            self._waiting[answer] = loop
        try:
            reference = getattr(self.actor, method).remote(*arguments)
            reference.future().add_done_callback(lambda done: _hand_over(loop, answer, done))
            return await answer
        except import_ray().exceptions.RayTaskError as error:  # the host is there, and could not do this
            raise SandboxDied(f"{method} failed on the node {self.node.name}: {_in_short(error.cause)}") from error
        except import_ray().exceptions.RayError as error:
            self.lose(error)
            raise SandboxDied(self.lost) from error
        finally:
            with self._lock:
                self._waiting.pop(answer, None)

    def lose(self, reason: BaseException | str) -> None:
        """Give the host up: whoever waits for an answer gets SandboxDied."""
        if isinstance(reason, BaseException):
            reason = _in_short(reason)
        with self._lock:
            if self.lost:
                return
            self.lost = f"The node {self.node.name} and its sandboxes are lost ({reason})."
            waiting, self._waiting = self._waiting, {}
        for answer, loop in waiting.items():
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_fail, answer, SandboxDied(self.lost))
        with suppress(Exception):  # it may be gone
            import_ray().kill(self.actor, no_restart=True)


class HostWatch:
    """A thread that asks every host each second whether it is there. The event loops of the driver may be busy."""

    def __init__(self) -> None:
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
        """Ask nobody any more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        self._links.clear()

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(BEAT_S):
            for link in [*self._links]:
                if link.lost:
                    self._links.discard(link)
                elif (silent_s := time.monotonic() - link.answered_at) > SILENCE_S:
                    link.lose(f"it has answered no heartbeat for {silent_s:.0f} s")
                else:
                    self._ask(link)

    def _ask(self, link: HostLink) -> None:
        try:
            beat = link.actor.beat.options(concurrency_group=HEARTBEATS).remote().future()
        except Exception as error:  # noqa: BLE001  Ray is being shut down, or the actor is known to be dead
            link.lose(error)
            return

        def note(done: Any) -> None:
            if (error := done.exception()) is not None:
                link.lose(error)
            else:
                link.answered_at = time.monotonic()

        beat.add_done_callback(note)


def _in_short(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def _hand_over(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any], done: Any) -> None:
    def settle() -> None:
        if not answer.done():
            error = done.exception()
            answer.set_result(done.result()) if error is None else answer.set_exception(error)

    with suppress(RuntimeError):  # the loop was closed
        loop.call_soon_threadsafe(settle)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
