"""The ray backend: sandboxes on the nodes of a Ray cluster, made by a SandboxHost on each with the backend there.

Nodes are trusted with the sandboxes' contents, and Ray's own connections are only as safe as the cluster makes them.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import suppress
from typing import Any

from agentgym import registry
from agentgym.cluster.host_link import HostNode
from agentgym.cluster.hosted_backend import LEASE_S, HostedBackend
from agentgym.cluster.hosted_sandbox import SandboxHostLink
from agentgym.cluster.ray_host import HEARTBEATS, CalledDirectly, RayHost, start_actor
from agentgym.cluster.ray_nodes import connect, import_ray, probe_nodes
from agentgym.cluster.sandbox_host import SandboxHost
from agentgym.cluster.user_modules import user_code_by_value
from agentgym.errors import ClusterError, MissingExtraError, SandboxUnavailable

RESCAN_S = 10.0
"""The interval of checks for newly joined nodes."""


class RaySandboxHost(CalledDirectly, SandboxHost):
    """A SandboxHost as an actor of Ray."""


class RayBackend(HostedBackend):
    """Creates each sandbox on the node of a cluster with the fewest sandboxes per CPU.

    Args:
        address: the cluster's address, host:port; `auto` is the cluster in RAY_ADDRESS, or the one on this host.
        nodes: the minimum number of nodes at the start; None for any number.
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
        super().__init__()
        self.address, self._nodes, self._backend, self._lease_s = address, nodes, backend, lease_s
        registry.load("backends", backend)
        self._scanned_at = 0.0

    async def _ready(self) -> list[SandboxHostLink]:
        """Start the hosts on the nodes, if they do not run yet."""
        if (alive := self._alive) and time.monotonic() - self._scanned_at < RESCAN_S:
            return alive
        if alive:  # look for new nodes without making callers wait
            self._scanned_at = time.monotonic()
            threading.Thread(target=self._rescan, name="agentgym-nodes", daemon=True).start()
            return alive
        await asyncio.to_thread(self._scan)
        return self._alive

    def _scan(self, *, with_nodes: bool = False) -> None:
        """Start a host on each node that has none.

        Args:
            with_nodes: scan even if some nodes already have a host.
        Raises: SandboxUnavailable if no node is left, or one cannot be used.
        """
        with self._lock:
            if not with_nodes and self._alive:
                return  # another call has just looked for new nodes
            try:
                nodes = connect(self.address, None if self._links else self._nodes)
                new = [node for node in nodes if node.id not in self._links or self._links[node.id].lost]
                actors = {node.id: self._start(node) for node in new}
                usable = asyncio.run(probe_nodes(new, actors, self._backend))
            except (ClusterError, MissingExtraError) as error:
                raise SandboxUnavailable(f"No sandbox can be created on the cluster: {error}") from error
            self._scanned_at = time.monotonic()
            for node in usable:
                link = self._links[node.id] = SandboxHostLink(node, RayHost(actors[node.id], node.name))
                self._host_watch.watch(link)
            if not self._alive:
                raise SandboxUnavailable(
                    "No node of the cluster is left to create sandboxes on. Run `agentgym cluster status` to see "
                    "which nodes are up."
                )

    def _rescan(self) -> None:
        with suppress(SandboxUnavailable):  # the existing nodes keep working
            self._scan(with_nodes=True)

    def _start(self, node: HostNode) -> Any:
        key = ("backends", self._backend)
        registered = {name: value for name, value in registry.registrations().items() if name == key}
        with user_code_by_value(import_ray().cloudpickle):
            return start_actor(
                RaySandboxHost, node, self._backend, self._lease_s, os.getpid(), registered, groups={HEARTBEATS: 2}
            )
