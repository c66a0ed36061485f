"""The limits on one sandbox's network use, the record of its requests, and sockets that charge it.

asyncio's `sock_recv` and `sock_sendall` are not used: they finish in callbacks of the loop, whose processor time is
charged to no sandbox, and a peer with a tiny window could cause any number of callbacks.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentgym.errors import SandboxError
from agentgym.sandbox.contract import Connection

_TOTAL = 0.3  # of one core, because the thread takes turns with the host's own Python code
_IN_USE_S = 1.0  # how long a sandbox counts as a user after its last use


class ProcessorShare:
    """Divides the proxy's share of a core equally among the sandboxes that currently use their networks."""

    def __init__(self) -> None:
        self._used_at: dict[object, float] = {}  # the least recently used first

    def of(self, user: object, most: float, now: float) -> float:
        """Return a user's share of one core, at most `most`. The call itself counts as a use at `now`, in seconds."""
        self._used_at.pop(user, None)
        self._used_at[user] = now
        while (first := next(iter(self._used_at))) is not user and self._used_at[first] < now - _IN_USE_S:
            del self._used_at[first]
        return min(most, _TOTAL / len(self._used_at))


_MIB = 2**20
_MAX_REASON_CHARS = 300
_BURST_S = 0.2  # processor seconds of its unused share that a sandbox can save up

Work = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """What the proxy grants one sandbox, from its creation to its end or reset.

    Attributes:
        connections: maximum at once; further ones wait.
        requests: maximum in total, including refused ones. Each is recorded, so the record is complete.
        transfer_mib: maximum MiB sent and received together.
        reads_per_s: reads of at most 64 KiB from either side; a new connection counts as ten. Without this limit, a
            program that sends single bytes would make the host work fifty times as hard as itself.
        processor_share: share of one core for serving this sandbox. If the sandboxes now using their networks would
            together get more than 0.3, each gets an equal part of 0.3.
        header_bytes: size of a request's head, or of a TLS hello. header_s: how long it may take to arrive.
        connect_s: time to resolve a name and connect to one of its addresses.
        idle_s: time without a byte in either direction. total_s: time from a connection's start to its end.
    """

    connections: int = 16
    requests: int = 5_000
    transfer_mib: int = 1024
    reads_per_s: int = 2_000
    processor_share: float = 0.1
    header_bytes: int = 32_768
    header_s: float = 10.0
    connect_s: float = 15.0
    idle_s: float = 120.0
    total_s: float = 900.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise SandboxError(
                    f"NetworkLimits.{name} = {getattr(self, name)!r} is not valid: a limit must be above 0."
                )


class Refusal(Exception):
    """The proxy refuses a request and answers it with a status and an error text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, "".join(c if " " <= c <= "~" else "?" for c in message)


@dataclass(slots=True)
class Entry:
    """One request while it is in progress; see `Connection`."""

    host: str
    port: int
    allowed: bool = False
    sent: int = 0
    received: int = 0
    reason: str = ""


@dataclass(slots=True, eq=False)
class Account:
    """The record of one sandbox. The proxy's thread writes it; any thread may read it."""

    limits: NetworkLimits
    processor: ProcessorShare = field(default_factory=ProcessorShare)
    entries: list[Entry] = field(default_factory=list)
    transferred: int = 0
    _due: float = 0.0

    def enter(self, host: str, port: int) -> Entry:
        """Record a request. Raises: Refusal if the limit on requests is reached."""
        if len(self.entries) >= self.limits.requests:
            raise Refusal(429, f"This sandbox has already made as many requests as it may: {self.limits.requests}.")
        entry = Entry(host, port)
        self.entries.append(entry)
        return entry

    def spend(self, count: int) -> None:
        """Count transferred bytes. Raises: Refusal if the limit on transfer is exceeded."""
        self.transferred += count
        if self.transferred > self.limits.transfer_mib * _MIB:
            raise Refusal(
                429, f"This sandbox has already transferred as much data as it may: {self.limits.transfer_mib} MiB."
            )

    async def pace(self, reads: int = 1) -> None:
        """Wait until the sandbox may read again; at least yield to other tasks."""
        self._owe(reads / self.limits.reads_per_s)
        await asyncio.sleep(max(self._due - asyncio.get_running_loop().time(), 0.0))

    async def metered(self, work: Work) -> None:
        """Run a coroutine and charge its processor time, for which the next `pace` waits."""
        await _Metered(work(), self._charge)

    def _charge(self, processor_s: float) -> None:
        now = asyncio.get_running_loop().time()
        self._owe(processor_s / self.processor.of(self, self.limits.processor_share, now))

    def _owe(self, seconds: float) -> None:
        self._due = max(self._due, asyncio.get_running_loop().time() - _BURST_S) + seconds

    def connections(self) -> tuple[Connection, ...]:
        return tuple(
            Connection(
                entry.host, entry.port, entry.allowed, entry.sent, entry.received, entry.reason[:_MAX_REASON_CHARS]
            )
            for entry in list(self.entries)
        )


class _Metered:
    """Awaits a coroutine and reports the processor time of each step between two of its waits."""

    def __init__(self, work: Coroutine[Any, Any, None], charge: Callable[[float], None]) -> None:
        self._work, self._charge = work, charge

    def __await__(self) -> Generator[Any, Any, None]:
        resume = partial(self._work.send, None)
        while True:
            began = time.thread_time()
            try:
                awaited = resume()
            except StopIteration:
                return
            finally:
                self._charge(time.thread_time() - began)
            try:
                resume = partial(self._work.send, (yield awaited))
            except BaseException as error:  # noqa: BLE001  it is the coroutine's, a cancellation among them
                resume = partial(self._work.throw, error)


_PIECE = 1 << 16


class PacedSocket:
    """A non-blocking stream socket. One task may read it while another writes."""

    def __init__(self, stream: socket.socket, account: Account) -> None:
        self._stream, self._account = stream, account
        self._loop = asyncio.get_running_loop()

    async def receive(self) -> bytes:
        """Read at most 64 KiB; empty at the end. Raises: OSError."""
        while True:
            await self._account.pace()
            try:
                return self._stream.recv(_PIECE)
            except BlockingIOError:
                await self._ready(self._loop.add_reader, self._loop.remove_reader)

    async def send(self, data: bytes) -> None:
        """Send all of the data. Raises: OSError."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._stream.send(rest) :]
            except BlockingIOError:
                await self._ready(self._loop.add_writer, self._loop.remove_writer)
                await self._account.pace()

    def shut(self) -> None:
        """Shut down the sending side. Raises: OSError."""
        self._stream.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket. May be called twice."""
        self._stream.close()

    async def _ready(self, watch: Callable[..., object], stop: Callable[[int], object]) -> None:
        descriptor, ready = self._stream.fileno(), self._loop.create_future()
        watch(descriptor, _settle, ready)
        try:
            await ready
        finally:
            stop(descriptor)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
