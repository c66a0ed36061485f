"""The host's handle of one guest: the link to the guest, and the lifeline, whose other end the spawner holds."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import resource
import socket
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agentgym.errors import SandboxError, SandboxUnavailable
from agentgym.sandbox.contract import Snapshot
from agentgym.sandbox.link import Link
from agentgym.sandbox.network.proxy import Proxy, SandboxNetwork
from agentgym.threads import in_thread

_CLOSE_S = 15.0
_REPORT_S = 5.0
_CLOSED = "The sandbox was closed."
_LOGGER = logging.getLogger("agentgym")


class GuestHandle:
    """One guest and everything that belongs to it.

    Attributes:
        missing: limits that are not enforced, each with the reason.
        image_digest: digest of the guest's image, as "sha256:..."; "" for the host's own programs.
        network: the guest's network through the proxy; None without a network.
        relay: the guest's connections to one address of the host; None without them.
        name: the name of the guest's container; "" if it is in none.
    """

    network: SandboxNetwork | None = None
    relay: SandboxNetwork | None = None
    name = ""
    _exhausted: bool | None = None

    def __init__(
        self, link: Link, lifeline: socket.socket, end_if_hung: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        """Create a handle. `end_if_hung` ends a spawner that does not report in time; it returns whether it ended."""
        lifeline.setblocking(False)
        self.link, self._lifeline = link, lifeline
        self.missing: dict[str, str] = {}
        self.image_digest = ""
        self.base_snapshot: Snapshot | None = None  # the guest started from it; only changes to it are transferred
        self._closing: asyncio.Future[None] | None = None
        self._end_if_hung = end_if_hung

    async def spawner_report(self) -> dict[str, Any] | None:
        """Return the spawner's last message about the sandbox; None if there is none."""
        try:
            async with asyncio.timeout(_REPORT_S):
                message = await asyncio.get_running_loop().sock_recv(self._lifeline, 65_536)
            return dict(json.loads(message)) if message else None
        except (OSError, TimeoutError, ValueError):
            return None

    async def ran_out_of_memory(self) -> bool:
        """Return whether the guest has ended because the code in its sandbox used up the memory."""
        if self._exhausted is None and self.link.hung_up:
            self._exhausted = await self._memory_ran_out()
        return bool(self._exhausted)

    async def _memory_ran_out(self) -> bool:
        report = await self.spawner_report()
        return self._exhausted or (report or {}).get("kind") == "exhausted"

    async def run_operation(
        self, operation: str, timeout_s: float, descriptors: Sequence[int], **fields: Any
    ) -> tuple[bool, str]:
        """Make the guest run an operation on its files. Returns: whether it succeeded, and the error text if not.

        Raises: SandboxError if it did not finish in time; SandboxDied.
        """
        header, blob = await self.link.call(
            {"op": operation, "timeout": timeout_s, "limit": 4096, **fields},
            deadline_s=timeout_s + 5,
            max_blob=8192,
            descriptors=descriptors,
        )
        if header.get("timed_out") is True:
            raise SandboxError(
                f"The sandbox did not {operation} its files within {timeout_s:g} s, because the machine is "
                "overloaded. Run fewer sandboxes at once."
            )
        exit_code = header.get("exit")
        return exit_code == 0, blob[:500].decode("utf-8", "replace") or f"it ended with {exit_code!r:.40}"

    async def close(self) -> None:
        """Kill everything, and wait until the spawner reports that nothing is left. May be called twice.

        If the kernel takes too long to remove what agent code made, log a warning; the spawner continues the removal.
        The sandbox has ended either way, and cannot be used.
        """
        if self._lifeline.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        if self._closing is not None and self._closing.get_loop() is loop:
            await asyncio.shield(self._closing)
            return
        self._closing = loop.create_future()
        try:
            self.link.close(_CLOSED)
            try:
                self._lifeline.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(_CLOSE_S):
                    while await loop.sock_recv(self._lifeline, 65_536):
                        pass
            except TimeoutError:
                if self._end_if_hung is None or not await self._end_if_hung():
                    _LOGGER.warning(
                        (
                            "A sandbox was killed %g s ago, but the kernel has not yet removed all of its processes. "
                            "It continues to do so."
                        ),
                        _CLOSE_S,
                    )
            except OSError:
                pass  # the spawner has ended, and the kernel has killed the sandbox with it
        finally:
            self._lifeline.close()
            try:
                await self.close_network()
            finally:
                self._closing.set_result(None)

    async def open_network(self, proxy: Proxy, names: tuple[str, ...], transfer_mib: int | None) -> None:
        """Give a guest access to these names. Call it before any agent code runs. Raises: see `Proxy.attach`."""
        self.network = await proxy.attach(self.link, names, transfer_mib=transfer_mib)
        weakref.finalize(self, self.network.stop)

    async def open_relay(self, proxy: Proxy, address: tuple[str, int]) -> None:
        """Relay one address inside to one of the host. Raises: see `Proxy.relay`."""
        self.relay = await proxy.relay(self.link, address)
        weakref.finalize(self, self.relay.stop)

    async def close_network(self) -> None:
        """End the guest's connections. Call it last: the guest may hold the sockets, so it must have ended."""
        for network in filter(None, (self.network, self.relay)):
            await asyncio.shield(in_thread(network.close))

    def forget(self) -> None:
        """Close this forked process's copies of its parent's sockets, without ending the sandbox."""
        self.link.forget()
        self._lifeline.close()
        for network in filter(None, (self.network, self.relay)):
            network.stop()


@contextmanager
def descriptors_available() -> Iterator[None]:
    """Raise SandboxUnavailable instead of an OSError if this process may open no more files."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise SandboxUnavailable(
            f"This process has reached its limit of {limit} open files ({error.strerror}). Every sandbox needs two, "
            "and a running call some more. Raise the limit (ulimit -n), or keep fewer sandboxes open at once."
        ) from error
