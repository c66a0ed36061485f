"""The common base of backends whose sandboxes are made by SandboxHosts on other nodes.

    driver: environments, tools, policy  ──calls──>  node: SandboxHost ──> namespaces backend ──> sandboxes
                                         <─results──

A call whose answer is lost may have run. It is never sent again, but raises SandboxDied: the episode continues from its
checkpoint in another sandbox, or restarts. Only creation is retried on another node, since no agent code has run yet.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from abc import ABC, abstractmethod
from dataclasses import replace

from agentgym.cluster.host_link import HostWatch
from agentgym.cluster.hosted_sandbox import HostedSandbox, SandboxHostLink
from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox import Capabilities, Running, Sandbox, Snapshot
from agentgym.sandbox.limits import LIMITS, SandboxSpec

LEASE_S = 30.0
"""How long sandboxes outlive the last heartbeat of their driver."""


class HostedBackend(ABC):
    """Creates each sandbox on the node with the fewest sandboxes per CPU. A subclass provides the nodes."""

    name: str

    def __init__(self) -> None:
        self._links: dict[str, SandboxHostLink] = {}  # by node id
        self._lock = threading.Lock()
        self._host_watch = HostWatch()

    @abstractmethod
    async def _ready(self) -> list[SandboxHostLink]:
        """Return the available hosts, at least one. Raises: SandboxUnavailable."""

    async def _choose(self) -> SandboxHostLink:
        """Return the host for the next sandbox. Raises: SandboxUnavailable."""
        return min(await self._ready(), key=lambda link: link.load)

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        """See `Backend.create`. What this process accepts, it accepts on the nodes too."""
        spec = replace(spec, accept_weaker=spec.accepted)
        while True:
            link = await self._choose()
            key = uuid.uuid4().hex
            link.sandboxes += 1
            sandbox = None
            try:
                facts, error, _ = await link.ask("create", key, spec, snapshot)
                if error is None:
                    sandbox = HostedSandbox(link, key, snapshot, **facts)
                    return sandbox
                raise error
            except SandboxDied:
                if not link.lost:
                    raise
            except asyncio.CancelledError:
                link.send("discard", key)
                raise
            finally:
                if sandbox is None:
                    link.sandboxes -= 1

    async def probe(self) -> Capabilities:
        """Return what every node can enforce. A limit is missing if any node cannot enforce it."""
        try:
            links = await self._ready()
            reports = [await link.ask("capabilities") for link in links]
        except (SandboxUnavailable, SandboxDied) as error:
            return Capabilities(False, reason=str(error))
        missing = {name: why for capabilities in reports for name, why in capabilities.missing}
        return Capabilities(
            True,
            min((capabilities.level for capabilities in reports), key=len),
            enforced=tuple(name for name in LIMITS if name not in missing),
            missing=tuple(missing.items()),
            snapshots=all(capabilities.snapshots for capabilities in reports),
            watched=tuple(dict.fromkeys(name for capabilities in reports for name in capabilities.watched)),
        )

    async def running(self) -> list[Running]:
        """Return all drivers' sandboxes on the nodes; the owner of other drivers' sandboxes is unknown."""
        rows: dict[str, Running] = {}
        for link in await self._ready():
            for row in await link.ask("running"):
                row = replace(row, id=f"{link.node.name}/{row.id}", backend=self.name)
                if row.owner or row.id not in rows:
                    rows[row.id] = row
        return [*rows.values()]

    async def clean(self) -> list[str]:
        """Remove the leftovers of ended processes on the nodes."""
        links = await self._ready()
        return [f"{line} (on {link.node.name})" for link in links for line in await link.ask("clean")]

    async def close(self) -> None:
        """Close every sandbox and end the hosts. The cluster itself keeps running."""
        links = await asyncio.to_thread(self._take_links)
        await asyncio.gather(*(link.ask("close") for link in links if not link.lost), return_exceptions=True)
        await asyncio.to_thread(self._host_watch.end)
        for link in links:
            link.lose("its backend was closed")
        await asyncio.gather(*(link.ended() for link in links))

    @property
    def _alive(self) -> list[SandboxHostLink]:
        return [link for link in [*self._links.values()] if not link.lost]

    def _take_links(self) -> list[SandboxHostLink]:
        with self._lock:
            links, self._links = [*self._links.values()], {}
            return links
