"""What one sandbox may send and receive, and the record of what it did."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agentgym.errors import SandboxError
from agentgym.sandbox.contract import Connection

_MIB = 2**20
_KEPT_REASON = 300
_BURST_S = 0.2  # what is saved up while nothing happens


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """What the proxy grants one sandbox, from its start to its end or reset.

    Attributes:
        connections: at once; further ones wait.
        requests: in all, the refused ones included: each is kept in the record, so the record is complete.
        transfer_mib: bytes sent and received, together.
        reads_per_s: pieces of at most 64 KiB taken from either side, a new connection counting as ten. Without it,
            a program that sends single bytes would have the host work fifty times as hard as itself.
        header_bytes: the head of a request, or a TLS hello. `header_s`: how long it may take to arrive whole.
        connect_s: finding a name's addresses and connecting to one.
        idle_s: without a byte in either direction. `total_s`: one connection from its start to its end.
    """

    connections: int = 16
    requests: int = 5_000
    transfer_mib: int = 1024
    reads_per_s: int = 2_000
    header_bytes: int = 32_768
    header_s: float = 10.0
    connect_s: float = 15.0
    idle_s: float = 120.0
    total_s: float = 900.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise SandboxError(f"NetworkLimits.{name} is {getattr(self, name)!r}: a limit is above 0.")


class Refusal(Exception):
    """A request that is answered with a status and a sentence instead of being carried out."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, "".join(c if " " <= c <= "~" else "?" for c in sentence)


@dataclass(slots=True)
class Entry:
    """One request while it is under way; see `Connection`."""

    host: str
    port: int
    allowed: bool = False
    sent: int = 0
    received: int = 0
    reason: str = ""


@dataclass(slots=True)
class Account:
    """The record of one sandbox. Written by the proxy's thread, read by any."""

    limits: NetworkLimits
    entries: list[Entry] = field(default_factory=list)
    transferred: int = 0
    _due: float = 0.0

    def enter(self, host: str, port: int) -> Entry:
        """A new line. Raises: Refusal if the record is full."""
        if len(self.entries) >= self.limits.requests:
            raise Refusal(429, f"This sandbox has made the {self.limits.requests} requests it may make.")
        entry = Entry(host, port)
        self.entries.append(entry)
        return entry

    def spend(self, count: int) -> None:
        """Raises: Refusal once more is transferred than may be."""
        self.transferred += count
        if self.transferred > self.limits.transfer_mib * _MIB:
            raise Refusal(429, f"This sandbox has transferred the {self.limits.transfer_mib} MiB it may transfer.")

    async def pace(self, reads: int = 1) -> None:
        """Wait until the sandbox may read again."""
        now = asyncio.get_running_loop().time()
        self._due = max(self._due, now - _BURST_S) + reads / self.limits.reads_per_s
        if self._due > now:
            await asyncio.sleep(self._due - now)

    def connections(self) -> tuple[Connection, ...]:
        return tuple(
            Connection(one.host, one.port, one.allowed, one.sent, one.received, one.reason[:_KEPT_REASON])
            for one in list(self.entries)
        )
