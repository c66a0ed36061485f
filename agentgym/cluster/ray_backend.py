"""The ray backend: sandboxes on the nodes of a Ray cluster, made by a SandboxHost on each with the backend there.

    driver: environments, tools, policy  ──calls──>  node: SandboxHost ──> namespaces backend ──> sandboxes
                                         <─results──

A call whose answer is lost may have run. It is never sent again, but raises SandboxDied: the episode goes on from its
checkpoint in another sandbox, or begins anew. Only a creation is tried on another node: no code of the agent ran yet.
Nodes are trusted with what is in the sandboxes, and Ray's own connections are as safe as its cluster makes them.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agentgym import registry
from agentgym.cluster.host_link import HEARTBEATS, HostWatch
from agentgym.cluster.ray_engine import start_actor
from agentgym.cluster.ray_nodes import RayNode, connect, import_ray, probe_nodes
from agentgym.cluster.ray_sandbox import RaySandbox, SandboxHostLink
from agentgym.cluster.sandbox_host import SandboxHost
from agentgym.cluster.user_modules import user_code_by_value
from agentgym.errors import ClusterError, MissingExtraError, SandboxDied, SandboxUnavailable
from agentgym.sandbox import LIMITS, Capabilities, Running, Sandbox, SandboxSpec, Snapshot

LEASE_S = 30.0
"""How long sandboxes outlive the last heartbeat of their driver."""
RESCAN_S = 10.0
"""How often to look for nodes that have joined."""


class RayBackend:
    """Creates sandboxes on the node of a cluster that has the fewest for its processors.

    Args:
        address: of the cluster, host:port; `auto` is the one that RAY_ADDRESS names, or that runs on this host.
        nodes: how many there must be at least at the start; None for any number.
        backend: registered name of the backend on the nodes.
        lease_s: how long sandboxes outlive the last heartbeat of this process, in seconds.
    Raises: UnknownNameError if nothing is registered as the backend.
    """

    name = "ray"

    def __init__(
        self,
        address: str = "auto",
        *,
        nodes: int | None = None,
        backend: str = "namespaces",
        lease_s: float = LEASE_S,
    ) -> None:
        self.address, self._nodes, self._backend, self._lease_s = address, nodes, backend, lease_s
        registry.load("backends", backend)
        self._links: dict[str, SandboxHostLink] = {}  # by node id
        self._lock = threading.Lock()
        self._host_watch = HostWatch()
        self._scanned_at = 0.0

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        """See `Backend.create`."""
        while True:
            link = min(await self._ready(), key=lambda link: link.load)
            key = uuid.uuid4().hex
            link.sandboxes += 1
            sandbox = None
            try:
                image_digest, error, _ = await link.ask("create", key, spec, snapshot)
                if error is None:
                    sandbox = RaySandbox(link, key, image_digest, snapshot)
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
        """What every node can enforce: a limit that one of them cannot is missing."""
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
        """The sandboxes that drivers have on the nodes; of other drivers' the owner is not known."""
        rows: dict[str, Running] = {}
        for link in await self._ready():
            for row in await link.ask("running"):
                row = replace(row, id=f"{link.node.name}/{row.id}", backend=self.name)
                if row.owner or row.id not in rows:
                    rows[row.id] = row
        return [*rows.values()]

    async def clean(self) -> list[str]:
        """Remove what processes that have ended left behind on the nodes."""
        links = await self._ready()
        return [f"{line} (on {link.node.name})" for link in links for line in await link.ask("clean")]

    async def close(self) -> None:
        """Close every sandbox and end the hosts. Ray itself keeps running."""
        links = await asyncio.to_thread(self._take_links)
        await asyncio.gather(*(link.ask("close") for link in links if not link.lost), return_exceptions=True)
        await asyncio.to_thread(self._host_watch.end)
        for link in links:
            link.lose("its backend was closed")
        await asyncio.gather(*(link.ended() for link in links))

    async def _ready(self) -> list[SandboxHostLink]:
        """The hosts that are there, at least one. Raises: SandboxUnavailable."""
        alive = [link for link in self._links.values() if not link.lost]
        if alive and time.monotonic() - self._scanned_at < RESCAN_S:
            return alive
        if alive:  # nobody waits for nodes that may join
            self._scanned_at = time.monotonic()
            threading.Thread(target=self._rescan, name="agentgym-nodes", daemon=True).start()
            return alive
        await asyncio.to_thread(self._scan)
        return [link for link in self._links.values() if not link.lost]

    def _scan(self, *, with_nodes: bool = False) -> None:
        """Start a host on each node that has none.

        Args:
            with_nodes: although there are some with one.
        Raises: SandboxUnavailable if no node is left, or one cannot be used.
        """
        with self._lock:
            if not with_nodes and any(not link.lost for link in self._links.values()):
                return  # another call has just done so
            try:
                nodes = connect(self.address, None if self._links else self._nodes)
                new = [node for node in nodes if node.id not in self._links or self._links[node.id].lost]
                actors = {node.id: self._start(node) for node in new}
                usable = asyncio.run(probe_nodes(new, actors, self._backend))
            except (ClusterError, MissingExtraError) as error:
                raise SandboxUnavailable(f"No sandbox can be made on a cluster: {error}") from error
            self._scanned_at = time.monotonic()
            for node in usable:
                link = self._links[node.id] = SandboxHostLink(node, actors[node.id])
                self._host_watch.watch(link)
            if all(link.lost for link in self._links.values()):
                raise SandboxUnavailable(
                    "No node of the cluster is left to make sandboxes on. See what is up with: agentgym cluster status"
                )

    def _rescan(self) -> None:
        with suppress(SandboxUnavailable):  # the nodes that are there go on
            self._scan(with_nodes=True)

    def _take_links(self) -> list[SandboxHostLink]:
        with self._lock:
            links, self._links = [*self._links.values()], {}
            return links

    def _start(self, node: RayNode) -> Any:
        key = ("backends", self._backend)
        registered = {name: value for name, value in registry.registrations().items() if name == key}
        with user_code_by_value(import_ray().cloudpickle):
            return start_actor(
                SandboxHost, node, self._backend, self._lease_s, os.getpid(), registered, groups={HEARTBEATS: 2}
            )
