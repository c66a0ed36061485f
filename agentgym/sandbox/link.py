"""The host's end of one guest: requests and replies over its control socket.

A guest may be hostile, stalled or dead. Its replies are bounded before they are stored, every request has a deadline on
the host's own clock, and any violation closes the link: all waiting calls raise SandboxDied.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.errors import SandboxDied
from agentgym.sandbox.guest.counted_time import longest_s
from agentgym.sandbox.guest.frames import INLINE_BYTES, MAX_HEADER_BYTES, READ_BYTES, FrameError, FrameReader, encode
from agentgym.sandbox.read_pace import ReadPace

Reply = tuple[dict[str, Any], bytes]
_BLOCKED_S = 0.5  # a timer that fires later than this was held up: the process was stopped, or the event loop blocked


@dataclass(slots=True)
class _PendingCall:
    """A call that waits for its reply.

    Attributes:
        deadline_s: seconds within which the guest must reply or report a delay.
        limit_s: the time limit of the call's code.
        began: the event loop's time when the call was sent.
        until: the event loop's time when `deadline_s` ends.
    """

    future: asyncio.Future[Reply]
    max_blob: int
    operation: str = ""
    deadline_s: float = 0.0
    limit_s: float = 0.0
    began: float = 0.0
    until: float = 0.0
    timer: asyncio.TimerHandle | None = None


class Link:
    """Multiplexes calls over one socket. A link is used from one event loop at a time; the loop may change."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._socket = control
        self._pending: dict[int, _PendingCall] = {}
        self._number = 0
        self._out: deque[tuple[memoryview, list[int]]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._frames, self._pace = FrameReader(MAX_HEADER_BYTES, 0), ReadPace()
        self.dead: str | None = None  # the reason, once the link is closed
        self.hung_up = False  # whether the link is closed because the guest has ended
        self.stalled = False  # whether the guest reported that processes left by agent code do not end

    def expect_greeting(self) -> asyncio.Future[Reply]:
        """Return the guest's first frame, which comes without a request."""
        self._attach()
        return self._expect(0, 0).future

    def send_order(self, order: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Send the data that a guest needs before its greeting."""
        self._put(encode(order), list(descriptors))

    async def call(
        self,
        request: dict[str, Any],
        blob: bytes = b"",
        *,
        deadline_s: float,
        limit_s: float = 0.0,
        max_blob: int = 0,
        descriptors: Sequence[int] = (),
    ) -> Reply:
        """Send a request and wait for its reply.

        The guest must reply within `deadline_s`. It has longer only while it keeps reporting that the call's code,
        whose time limit is `limit_s`, is waiting for a processor.

        A blob that is too large for a frame is passed as a sealed memory file. If the call is cancelled, the guest
        kills the call's processes before it handles any later request.

        Raises: SandboxDied if the guest is dead, sends an invalid reply, or misses the deadline.
        """
        if self.dead is not None:
            raise SandboxDied(self.dead)
        self._attach()
        self._number += 1
        number = self._number
        pending = self._expect(number, max_blob)
        passed = list(descriptors)
        memory = -1
        if len(blob) > INLINE_BYTES:
            memory = in_memory(blob)
            passed, blob = [memory, *passed], b""
        assert self._loop is not None
        pending.operation, pending.deadline_s, pending.limit_s = request["op"], deadline_s, limit_s
        pending.began = self._loop.time()
        pending.until = pending.began + deadline_s
        pending.timer = self._loop.call_at(pending.until, self._deadline_passed, pending)
        try:
            self._put(encode({**request, "id": number, "fds": len(passed)}, blob), passed)
            return await pending.future
        except asyncio.CancelledError:
            if self.dead is None:
                self._put(encode({"op": "cancel", "id": number, "call": number, "fds": 0}), [])
            raise
        finally:
            pending.timer.cancel()
            if memory >= 0:
                os.close(memory)

    def close(self, reason: str) -> None:
        """Close the link. All waiting calls raise SandboxDied with the reason."""
        if self.dead is not None:
            return
        self.dead = reason
        self._detach()
        self._socket.close()
        for _, descriptors in self._out:
            for descriptor in descriptors:
                os.close(descriptor)
        self._out.clear()
        pending, self._pending = list(self._pending.values()), {}
        for call in pending:
            _fail(call, reason)

    def forget(self) -> None:
        """Close the socket in a forked process, without notifying the guest or the event loop."""
        self.dead = "This sandbox was created in another process; a forked process must create its own."
        self._socket.close()

    def _expect(self, number: int, max_blob: int) -> _PendingCall:
        pending = self._pending[number] = _PendingCall(asyncio.get_running_loop().create_future(), max_blob)
        self._frames.max_blob = max(call.max_blob for call in self._pending.values())
        return pending

    def _attach(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._detach()
            self._loop = loop
            loop.add_reader(self._socket, self._receive)
            if self._out:
                loop.add_writer(self._socket, self._send_rest)

    def _detach(self) -> None:
        if self._loop is not None and not self._loop.is_closed() and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        self._loop = None

    def _put(self, frame: bytes, descriptors: list[int]) -> None:
        waiting = bool(self._out)
        self._out.append((memoryview(frame), [os.dup(descriptor) for descriptor in descriptors]))
        if not waiting:
            self._send()
            if self._out and self._loop is not None:
                self._loop.add_writer(self._socket, self._send_rest)

    def _send_rest(self) -> None:
        """Send more, now that the socket accepts data again."""
        self._send()
        if not self._out and self._loop is not None:
            self._loop.remove_writer(self._socket)

    def _send(self) -> None:
        try:
            while self._out:
                frame, descriptors = self._out[0]
                if descriptors:  # descriptors are sent with the first byte
                    sent = socket.send_fds(self._socket, [frame], descriptors)
                    for descriptor in descriptors:
                        os.close(descriptor)
                else:
                    sent = self._socket.send(frame)
                if sent < len(frame):
                    self._out[0] = (frame[sent:], [])
                else:
                    self._out.popleft()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.hung_up = True
            self.close(f"The sandbox hung up ({error.strerror}).")

    def _receive(self) -> None:
        # reading the clock takes a microsecond, which a reply that arrives in one piece need not pay
        began = time.thread_time() if self._frames.has_part else None
        try:
            data = self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            data = b""
            reason = f"The sandbox hung up ({error.strerror})."
        else:
            reason = "The sandbox ended: its guest process was killed."
        if not data:
            self.hung_up = True
            self.close(reason)
            return
        self._pace.charge(len(data), 0.0 if began is None else time.thread_time() - began)
        self._frames.feed(data)
        try:
            while (frame := self._frames.next()) is not None:
                self._pace.restart()
                self._resolve(*frame)
        except FrameError as error:
            self.close(f"The sandbox sent {error}. It is not trusted any more, and closed.")
            return
        if pause_s := self._pace.pause_s():
            self._stop_reading(pause_s)

    def _stop_reading(self, pause_s: float) -> None:
        loop = self._loop

        def resume() -> None:
            if loop is self._loop and loop is not None and self.dead is None:  # else another event loop reads by now
                loop.add_reader(self._socket, self._receive)

        if loop is not None:
            loop.remove_reader(self._socket)
            loop.call_later(pause_s, resume)

    def _resolve(self, header: dict[str, Any], blob: bytes) -> None:
        _check_flat(header)
        if header.get("stalled") is True:
            self.stalled = True
            self.close("The sandbox ended: the processes that the agent's code left behind do not end.")
            return
        number = header.get("id")
        if not isinstance(number, int) or (call := self._pending.get(number)) is None:
            raise FrameError(f"a reply to request {number!r:.40}, which the host has not sent")
        if len(blob) > call.max_blob:
            raise FrameError(f"{len(blob)} bytes, where at most {call.max_blob} were requested")
        if header.get("late") is True:
            latest = call.began + longest_s(call.limit_s)
            call.until = max(call.until, min(call.future.get_loop().time(), latest) + call.deadline_s)
            return
        del self._pending[number]  # only now: if the reply is refused, `close` must still tell its caller
        if not call.future.done():  # if done, its caller was cancelled
            call.future.set_result((header, blob))

    def _deadline_passed(self, call: _PendingCall) -> None:
        """Close the link, unless the guest has reported a delay, or this event loop was too late to see its report."""
        loop = call.future.get_loop()
        if call.future.done():
            return
        now = loop.time()
        assert call.timer is not None
        if now - call.timer.when() > _BLOCKED_S:
            call.until = now + call.deadline_s
        if call.until > now:
            call.timer = loop.call_at(call.until, self._deadline_passed, call)
            return
        self.close(
            f"The sandbox did not answer {call.operation!r} within {call.deadline_s:g} s, the call's own time limit "
            "included: the guest is stalled, or the machine overloaded. The sandbox is closed."
        )


def _check_flat(header: dict[str, Any]) -> None:
    """Raise FrameError for a nested header. A header nested as deeply as JSON allows could not be shown in an error."""
    for value in header.values():
        if type(value) is list:
            raise FrameError(
                "a frame header that contains a list, where only texts, numbers and flat objects are allowed"
            )
        if type(value) is dict and not all(type(inner) is str for inner in value.values()):
            raise FrameError("a frame header with an object that contains something other than texts")


def _fail(call: _PendingCall, reason: str) -> None:
    if not call.future.done() and not call.future.get_loop().is_closed():
        call.future.set_exception(SandboxDied(reason))


def in_memory(data: bytes) -> int:
    """Return a descriptor of a sealed memory file. No process can change or enlarge it."""
    descriptor = os.memfd_create("agentgym", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE)
    return descriptor
