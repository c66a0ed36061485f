"""OpenEnv, both ways: its servers as environments, and tasks of ours behind a server that its clients know.

wire.py          the frames of the protocol, as both sides use them
connection.py    a client's session with a server
environment.py   OpenEnvEnvironment, `register_openenv`, `openenv_tasks`
session.py       one client's episodes of ours
server.py        the server: sessions, routes, limits, `openenv.yaml`
"""

from .environment import OpenEnvEnvironment, environment_at, openenv_tasks, register_openenv

__all__ = ["OpenEnvEnvironment", "environment_at", "openenv_tasks", "register_openenv"]
