"""Several hosts: remote environments, and episodes and sandboxes on the nodes of a cluster.

    environment = agentgym.make("http://10.0.0.7:8650/agentgym/sql-v1")
    config = RolloutConfig(engine=RayEngine("10.0.0.7:6379"))

Environment server: environment_server.py answers requests, served_episodes.py keeps the open episodes and their leases,
serving.py listens. Client side: remote_environment.py, and server_connection.py, which talks to one server.
wire.py: the messages between them. tokens.py: the shared secret.

Episodes on nodes: episode_worker.py plays them on each node, cluster_session.py is the driver's side of a run,
session_workers.py chooses the worker of each episode, relay.py replaces the policy and the ledger on a node: a policy
on a server is asked from there.
episode_spool.py stores episodes that end while the driver is away, and driver_load.py measures how busy the driver is.
ray_engine.py and ray_nodes.py run all of this on Ray, and host_pool.py replaces the hosts that die.

Sandboxes on nodes: sandbox_host.py makes them there, hosted_backend.py and hosted_sandbox.py are the driver's side, and
ray_backend.py starts the hosts on the nodes of a Ray cluster. host_link.py connects to hosts, with heartbeats;
ray_host.py carries its calls to a Ray actor. hosts.py has what the backend of another cluster needs, such as that of
agentgym.bridges.kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.cluster import hosts
    from agentgym.cluster.ray_engine import RayEngine

_HOME = {  # named as entry points by earlier versions, if installed
    "RayBackend": "ray_backend",
    "RayEngine": "ray_engine",
    "environment_at": "remote_environment",
}

__all__ = ["RayEngine", "hosts"]


__getattr__ = lazy_names(__name__, _HOME)
