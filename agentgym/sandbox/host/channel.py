"""A long-lived process inside a sandbox that speaks JSON lines over its own socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import Any

from agentgym.errors import SandboxDied
from agentgym.sandbox.host.replies import seconds
from agentgym.sandbox.link import Link
from agentgym.sandbox.read_pace import ReadPace, next_piece
from agentgym.sandbox.time_limit import ChannelLimit, SandboxCall

MAX_LINE_BYTES = 16 * 2**20
MAX_LINE_VALUES = 1_000_000
MAX_LINE_DEPTH = 100  # nested lists and objects: at Python's own limit, no code could traverse them
_START_S = 30.0
_MAX_ERROR_TEXT = 2000


class LineChannel:
    """Sends one request at a time. A failed or cancelled request closes the channel: replies could be mixed up."""

    def __init__(self, link: Link, number: int, stream: socket.socket, errors: int) -> None:
        self._link, self._number, self._stream, self._errors = link, number, stream, errors
        self._serial = asyncio.Lock()
        self._buffer, self.waited_s = bytearray(), 0.0

    @classmethod
    async def open(cls, link: Link, argv: list[str]) -> LineChannel:
        """Open a channel to a new process. Raises: SandboxDied; OSError if no process can be started."""
        ours, theirs = socket.socketpair()
        errors, errors_write = os.pipe()
        os.set_blocking(errors, False)
        ours.setblocking(False)
        try:
            header, _ = await link.call(
                {"op": "channel", "argv": [str(part) for part in argv]},
                deadline_s=_START_S,
                descriptors=[theirs.fileno(), errors_write],
            )
            if "error" in header:
                raise OSError(f"A channel to {argv[0]!r} cannot be opened: {header.get('text')!s:.500}")
        except BaseException:
            ours.close()
            os.close(errors)
            raise
        finally:
            theirs.close()
            os.close(errors_write)
        return cls(link, header["id"], ours, errors)

    async def request(self, message: Any, *, timeout_s: float = 30) -> Any:
        """Send one value and return the value of the next line.

        Raises: SandboxDied if the process ended, sent a line of more than 16 MiB, a million values or a hundred levels,
            or a line that is not JSON; TimeoutError; HostOverloaded. After any of them the channel is closed.
        """
        async with self._serial:
            if self._stream.fileno() < 0:
                raise SandboxDied("This channel is closed. Open a new one.")
            line_out = json.dumps(message).encode() + b"\n"
            answered = False
            try:
                line = await self._exchange_in(timeout_s, line_out)
                _check_count(line)
                value = json.loads(line)
                _check_depth(line, value)
                answered = True
                return value
            except (ValueError, RecursionError) as error:
                reason = f"The channel's process sent a line that is not JSON ({error!s:.200})"
                raise SandboxDied(reason + self._stderr_text()) from error
            except (BrokenPipeError, ConnectionResetError) as error:
                raise SandboxDied(f"The channel's process closed its end{self._stderr_text()}") from error
            finally:
                if not answered:
                    await self.close()

    async def _exchange_in(self, timeout_s: float, line: bytes) -> bytes:
        """Send a line and return the next one. Raises: TimeoutError; HostOverloaded; as `_exchange`."""
        call = SandboxCall(timeout_s)
        limit = ChannelLimit(call.timeout_s, self._look)
        try:
            with limit:
                return await self._exchange(line)
        except TimeoutError:
            if not limit.expired:
                raise
        finally:
            self.waited_s += limit.waited_s
            call.end(limit.waited_s)
        await call.time_is_up()
        raise TimeoutError

    async def _look(self) -> tuple[bool, float]:
        """Return whether the process runs or waits for a processor, and its processor seconds divided by its share."""
        header, _ = await self._link.call({"op": "look_at", "channel": self._number}, deadline_s=_START_S)
        try:
            return header["ready"] is True, seconds(header, "cpu") / min(seconds(header, "cores"), 1.0)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise SandboxDied(f"The sandbox sent an invalid reply ({error!s:.200}).") from error

    async def _exchange(self, line: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._stream, line)
        searched, pace = 0, ReadPace()
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            piece = await next_piece(lambda: self._stream.recv(1 << 16), self._stream.fileno(), pace)
            if not piece:
                raise SandboxDied(f"The channel's process ended{self._stderr_text()}")
            self._buffer += piece
            if len(self._buffer) > MAX_LINE_BYTES:
                raise SandboxDied(f"The channel's process sent a line of more than {MAX_LINE_BYTES} bytes.")
        answer = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return answer

    def _stderr_text(self) -> str:
        try:
            text = os.read(self._errors, 65_536)[-_MAX_ERROR_TEXT:].decode("utf-8", "replace").strip()
        except OSError:
            text = ""
        return f"; its standard error:\n{text}" if text else "."

    def drop(self) -> None:
        """Close the host's ends of the channel when the sandbox itself ends."""
        if self._stream.fileno() >= 0:
            self._stream.close()
            os.close(self._errors)

    async def close(self) -> None:
        """End the process. May be called twice."""
        if self._stream.fileno() < 0:
            return
        self.drop()
        if self._link.dead is None:
            with contextlib.suppress(SandboxDied):
                await self._link.call({"op": "end_channel", "channel": self._number}, deadline_s=_START_S)


def _check_count(line: bytes) -> None:
    """Refuse JSON that takes many times its length in memory, such as many empty lists. Raises: SandboxDied."""
    if sum(line.count(mark) for mark in b",:[{") > MAX_LINE_VALUES:
        raise SandboxDied(f"The channel's process sent a line of more than {MAX_LINE_VALUES} values.")


def _check_depth(line: bytes, value: Any) -> None:
    """Refuse JSON nested too deeply for code to walk through. Raises: SandboxDied."""
    if line.count(b"[") + line.count(b"{") <= MAX_LINE_DEPTH:
        return
    level, depth = [value], 0
    while level := [
        inner
        for outer in level
        if type(outer) in (list, dict)
        for inner in (outer.values() if type(outer) is dict else outer)
    ]:
        depth += 1
        if depth > MAX_LINE_DEPTH:
            raise SandboxDied(f"The channel's process sent a line of more than {MAX_LINE_DEPTH} levels.")
