"""The limits on what one sandbox may send and receive, and the record of its requests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agentgym.errors import SandboxError
from agentgym.sandbox.contract import Connection

_MIB = 2**20
_MAX_REASON_CHARS = 300
_BURST_S = 0.2  # seconds of reads that can be saved up


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """What the proxy grants one sandbox, from its creation to its end or reset.

    Attributes:
        connections: at once; further ones wait.
        requests: in all, refused ones included. Each is recorded, so the record is complete.
        transfer_mib: MiB sent and received, together.
        reads_per_s: reads of at most 64 KiB from either side; a new connection counts as ten. Without this limit, a
            program that sends single bytes would make the host work fifty times as hard as itself.
        header_bytes: the head of a request, or a TLS hello. header_s: how long it may take to arrive.
        connect_s: for resolving a name and connecting to one of its addresses.
        idle_s: without a byte in either direction. total_s: one connection from its start to its end.
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
    """A request that is answered with a status and an error text instead of being carried out."""

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


@dataclass(slots=True)
class Account:
    """The record of one sandbox. Written by the proxy's thread, read by any."""

    limits: NetworkLimits
    entries: list[Entry] = field(default_factory=list)
    transferred: int = 0
    _due: float = 0.0

    def enter(self, host: str, port: int) -> Entry:
        """Record a request. Raises: Refusal if the limit on requests is reached."""
        if len(self.entries) >= self.limits.requests:
            raise Refusal(429, f"This sandbox has made the {self.limits.requests} requests it may make.")
        entry = Entry(host, port)
        self.entries.append(entry)
        return entry

    def spend(self, count: int) -> None:
        """Count transferred bytes. Raises: Refusal if the limit on transfer is exceeded."""
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
            Connection(
                entry.host, entry.port, entry.allowed, entry.sent, entry.received, entry.reason[:_MAX_REASON_CHARS]
            )
            for entry in list(self.entries)
        )
