"""OpenEnv in both directions: its servers as environments, and our tasks behind a server for OpenEnv clients.

wire.py          the protocol's frames, used by both sides
connection.py    a client's session with a server
environment.py   OpenEnvEnvironment, `register_openenv`, `openenv_tasks`
session.py       one client's episodes of our tasks
server.py        the server: sessions, routes, limits, `openenv.yaml`
"""

from .environment import OpenEnvEnvironment, environment_at, openenv_tasks, register_openenv

__all__ = ["OpenEnvEnvironment", "environment_at", "openenv_tasks", "register_openenv"]
