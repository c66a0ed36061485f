"""The ray backend: sandboxes on the nodes of a Ray cluster, made by a SandboxHost on each with the backend there.

Nodes are trusted with the sandboxes' contents, and Ray's own connections are only as safe as the cluster makes them.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial

from agentgym import registry
from agentgym.cluster.host_link import HostNode
from agentgym.cluster.host_pool import HostPool
from agentgym.cluster.hosted_backend import LEASE_S, HostedBackend
from agentgym.cluster.hosted_sandbox import SandboxHostLink
from agentgym.cluster.ray_host import HEARTBEATS, CalledDirectly, RayHost, check, start_actor
from agentgym.cluster.ray_nodes import connect, import_ray, live_nodes
from agentgym.cluster.sandbox_host import SandboxHost
from agentgym.cluster.user_modules import user_code_by_value
from agentgym.errors import ClusterError, MissingExtraError, SandboxUnavailable

WAIT_S = 60.0
"""How long a sandbox waits for a node if there is none."""


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
        self._pool = HostPool(live_nodes, self._start, partial(check, backend=backend))

    async def _ready(self) -> list[SandboxHostLink]:
        """Start the hosts on the nodes, if they do not run yet, and wait for one that can be used."""
        try:
            if not self._pool.is_open:
                with self._lock:
                    connect(self.address, self._nodes)
                await self._pool.open()
        except (ClusterError, MissingExtraError) as error:
            raise SandboxUnavailable(f"No sandbox can be created on the cluster: {error}") from error
        ends = time.monotonic() + WAIT_S
        while not (alive := self._pool.alive):
            if time.monotonic() > ends:
                raise SandboxUnavailable(
                    f"No node of the cluster is left to create sandboxes on, and none came within {WAIT_S:g} s. Run "
                    "`agentgym cluster status` to see which nodes are up."
                )
            await asyncio.sleep(0.1)
        return alive

    async def close(self) -> None:
        """Close every sandbox and end the hosts. The cluster itself keeps running."""
        await self._pool.close()

    def _start(self, node: HostNode) -> SandboxHostLink:
        key = ("backends", self._backend)
        registered = {name: value for name, value in registry.registrations().items() if name == key}
        with user_code_by_value(import_ray().cloudpickle):
            actor = start_actor(
                RaySandboxHost, node, self._backend, self._lease_s, os.getpid(), registered, groups={HEARTBEATS: 2}
            )
        return SandboxHostLink(node, RayHost(actor, node.name))
