"""SandboxHost: makes sandboxes on a node with the node's backend, for a remote driver.

The driver renews a lease with `beat`. When the lease runs out, every sandbox is closed: a driver that died, hangs or is
disconnected leaves nothing behind. This module does not depend on the transport.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym import registry
from agentgym.cluster.episode_worker import node_facts
from agentgym.errors import SandboxDied
from agentgym.sandbox import Backend, Capabilities, Running, Sandbox, Snapshot
from agentgym.sandbox.contract import Channel, Connection
from agentgym.sandbox.limits import SandboxSpec

Answer = tuple[Any, Exception | None, tuple[Connection, ...]]
"""A call's return value, its error, and the sandbox's network requests so far."""
_WATCH_S = 0.5


class SandboxHost:
    """The sandboxes of one driver on this node.

    Args:
        backend: registered name of the backend that makes the sandboxes.
        lease_s: how long sandboxes outlive the driver's last heartbeat, in seconds.
        driver: pid of the driver, which is shown as their owner.
        registered: the backend, if the driver's process registered it.
    """

    def __init__(
        self, backend: str, lease_s: float, driver: int, registered: Mapping[tuple[str, str], Any] | None = None
    ) -> None:
        registry.adopt(registered or {})
        self._backend: Backend = registry.load("backends", backend)()
        self._lease_s, self._driver = lease_s, driver
        self._sandboxes: dict[str, Sandbox] = {}
        self._known: dict[str, frozenset[str]] = {}  # digests of the layers that a sandbox was made from
        self._channels: dict[tuple[str, int], Channel] = {}
        self._calls: dict[int, asyncio.Task[Any]] = {}
        self._creating: dict[str, asyncio.Task[Sandbox]] = {}
        self._numbers = itertools.count()
        self._renewed_at = time.monotonic()
        self._watch: asyncio.Task[None] | None = None

    def beat(self) -> None:
        """Renew the lease of the host's sandboxes, which otherwise count as abandoned. Any thread may call this."""
        self._renewed_at = time.monotonic()

    async def probe(self, backend: str | None = None) -> dict[str, Any]:
        """Return the facts that the driver checks before using a node."""
        facts = await node_facts(self._backend if backend is not None else None)
        return facts | {"missing": {}}  # each spec says what it accepts

    async def capabilities(self) -> Capabilities:
        """Return the capabilities of the backend on this node."""
        return await self._backend.probe()

    async def create(self, key: str, spec: SandboxSpec, snapshot: Snapshot | None) -> Answer:
        """Make a sandbox under a key chosen by the driver. Returns: its attributes `image_digest` and `missing`."""
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._end_what_is_forgotten())
        creating = self._creating[key] = asyncio.ensure_future(self._backend.create(spec, snapshot=snapshot))
        try:
            sandbox = await creating
        except asyncio.CancelledError:  # cancelled by `discard`, which needs no answer
            return None, SandboxDied("The sandbox was cancelled while it was being created."), ()
        except Exception as error:  # noqa: BLE001  raised again at the driver
            self._creating.pop(key, None)
            return None, error, ()
        if self._creating.pop(key, None) is None:  # discarded meanwhile
            await sandbox.close()
            return None, SandboxDied("The sandbox was cancelled while it was being created."), ()
        self._sandboxes[key] = sandbox
        self._known[key] = frozenset(layer.digest for layer in (snapshot.layers if snapshot else ()))
        facts = {"image_digest": getattr(sandbox, "image_digest", ""), "missing": dict(getattr(sandbox, "missing", {}))}
        return facts, None, ()

    async def call(
        self, number: int, key: str, method: str, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Answer:
        """Call a method of a sandbox. `cancel` takes the `number`."""
        sandbox = self._sandboxes.get(key)
        if sandbox is None:
            return (
                None,
                SandboxDied("The sandbox on its node was closed, or its lease has ended. Create a new one."),
                (),
            )
        if method == "open_channel":
            work: Awaitable[Any] = self._open_channel(key, sandbox, *arguments)
        elif method == "request":
            work = _counted_request(self._channels[key, arguments[0]], *arguments[1:], **options)
        elif method == "close_channel":
            work = self._channels.pop((key, arguments[0])).close()
        else:
            work = getattr(sandbox, method)(*arguments, **options)
        value, error = await self._result_of(number, work)
        if isinstance(value, Snapshot):
            value = without_layers(value, self._known[key])
        return value, error, sandbox.connections

    async def cancel(self, number: int) -> None:
        """Cancel a call and kill its processes."""
        if (call := self._calls.get(number)) is not None:
            call.cancel()

    async def discard(self, key: str) -> tuple[Connection, ...]:
        """Close a sandbox, or cancel its creation. Returns: its network requests."""
        if (creating := self._creating.pop(key, None)) is not None:
            creating.cancel()
            await asyncio.wait({creating})
        sandbox = self._sandboxes.pop(key, None)
        self._known.pop(key, None)
        for channel_key in [channel_key for channel_key in self._channels if channel_key[0] == key]:
            del self._channels[channel_key]
        if sandbox is None:
            return ()
        await sandbox.close()
        return sandbox.connections

    async def running(self) -> list[Running]:
        """Return the sandboxes of all hosts on this node, this driver's first."""
        rows = await self._backend.running()
        own = [replace(row, owner=self._driver) for row in rows if row.owner == os.getpid()]
        return own + [replace(row, owner=0) for row in rows if row.owner != os.getpid() and _is_host(row.owner)]

    async def clean(self) -> list[str]:
        """Remove leftovers of dead processes' sandboxes on this node."""
        return await self._backend.clean()

    async def close(self) -> None:
        """Close every sandbox."""
        await asyncio.gather(*(self.discard(key) for key in {*self._sandboxes, *self._creating}))
        await self._backend.close()

    async def _open_channel(self, key: str, sandbox: Sandbox, argv: list[str]) -> int:
        channel = await sandbox.open_channel(argv)
        number = next(self._numbers)
        self._channels[key, number] = channel
        return number

    async def _result_of(self, number: int, work: Awaitable[Any]) -> tuple[Any, Exception | None]:
        call = self._calls[number] = asyncio.ensure_future(work)
        try:
            return await call, None
        except asyncio.CancelledError:  # cancelled by `cancel`, which needs no answer
            return None, SandboxDied("The call to the sandbox was cancelled.")
        except Exception as error:  # noqa: BLE001  raised again at the driver
            return None, error
        finally:
            del self._calls[number]

    async def _end_what_is_forgotten(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_S)
            if time.monotonic() - self._renewed_at > self._lease_s:
                await self.close()


async def _counted_request(channel: Channel, message: Any, *, timeout_s: float) -> tuple[Any, float, bool]:
    """Return the answer, the seconds that counted here, and whether these used the limit up: then without an answer."""
    began, waited_s = time.monotonic(), channel.waited_s
    value, is_late = None, False
    try:
        value = await channel.request(message, timeout_s=timeout_s)
    except TimeoutError:
        is_late = True
    return value, max(time.monotonic() - began - (channel.waited_s - waited_s), 0.0), is_late


def without_layers(snapshot: Snapshot, known: frozenset[str]) -> Snapshot:
    """Return the snapshot without the bytes of layers that the other side has."""
    layers = tuple(replace(layer, data=b"") if layer.digest in known else layer for layer in snapshot.layers)
    return replace(snapshot, layers=layers)


def _is_host(pid: int) -> bool:
    """Return whether a process is a SandboxHost, by the process title that Ray gives actors."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::RaySandboxHost")
    except OSError:
        return False
