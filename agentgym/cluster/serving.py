"""Listen for an environment server, and close idle or excess connections."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agentgym._imports import install_command
from agentgym.cluster.served_episodes import ServerLimits
from agentgym.errors import AgentGymError, MissingExtraError

if TYPE_CHECKING:
    from agentgym.cluster.connections import Connections

LOOPBACK = "127.0.0.1"
FIRST_REQUEST_S = 10.0
"""How long a connection may take to send its first request head."""
_LEAVE_S = 3  # grace period for running requests when the server is told to end


def check_installed() -> None:
    """Raise MissingExtraError without the extra `serve`."""
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"The environment server needs the package {package}, which is not installed. Run: "
                f"{install_command('serve')}"
            )


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any port. Raises: AgentGymError if it cannot be opened."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio sets TCP_NODELAY only for an explicit protocol; without it a request takes 40 ms
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise AgentGymError(
            f"{host} is not an address of this machine: {error}. Give one that is, such as 127.0.0.1."
        ) from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise AgentGymError(
            f"The server cannot listen at {host}, port {port}: {error.strerror}. Choose another --port, or --port 0 "
            "for any free one."
        ) from error
    return listening


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve_environments(
    names: Collection[str],
    tokens: Sequence[str],
    listening: socket.socket,
    limits: ServerLimits = ServerLimits(),  # noqa: B008  frozen
    *,
    ready: Callable[[Any], None] | None = None,
    **options: Any,
) -> None:
    """Serve environments until the process is interrupted or told to end.

    Args:
        names, tokens, limits, options: as for `EnvironmentServer`.
        listening: the socket from `listen`, which is closed at the end.
        ready: called before the start with uvicorn's server, whose `should_exit` ends it.
    Raises: MissingExtraError without the extra `serve`.
    """
    check_installed()
    from agentgym.cluster.connections import Connections
    from agentgym.cluster.environment_server import EnvironmentServer

    connections = Connections(limits.connections, FIRST_REQUEST_S)
    environment_server = EnvironmentServer(names, tokens, limits, accepted=connections.accept, **options)
    serve_application(environment_server.application(), listening, connections, ready=ready)


def serve_application(
    application: Any, listening: socket.socket, connections: Connections, *, ready: Callable[[Any], None] | None = None
) -> None:
    """Serve an ASGI application until the process is interrupted or told to end.

    Args:
        listening: the socket from `listen`, which is closed at the end.
        connections: the application reports here which connections sent a valid request; others are closed soon.
        ready: called before the start with uvicorn's server, whose `should_exit` ends it.
    """
    import uvicorn

    from agentgym.cluster.connections import server_config

    options = {"log_level": "error", "lifespan": "on", "timeout_graceful_shutdown": _LEAVE_S}
    server = uvicorn.Server(server_config(application, connections, **options))
    if ready is not None:
        ready(server)
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
