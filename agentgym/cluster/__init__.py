"""Environments on other hosts: a server that runs them, and the environment that stands for one of them here.

    environment = RemoteEnvironment("http://10.0.0.7:8650", "agentgym/sql-v1")

Server side: environment_server.py answers requests, served_episodes.py keeps the open episodes and their leases,
serving.py listens. Client side: remote_environment.py, and server_connection.py, which talks to one server.
wire.py: what travels between them. tokens.py: the secret that both know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.lazy import lazy_names

if TYPE_CHECKING:
    from agentgym.cluster.remote_environment import RemoteEnvironment, environment_at
    from agentgym.cluster.served_episodes import ServerLimits
    from agentgym.cluster.serving import serve_environments

_HOME = {
    "RemoteEnvironment": "remote_environment",
    "ServerLimits": "served_episodes",
    "environment_at": "remote_environment",
    "serve_environments": "serving",
}
__all__ = ["RemoteEnvironment", "ServerLimits", "environment_at", "serve_environments"]


__getattr__ = lazy_names(__name__, _HOME)
