"""Start the page's server, on this machine's loopback address only."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym._imports import install_command
from agentgym.errors import AgentGymError, MissingExtraError
from agentgym.viewer.guard import Guard

ADDRESS = "127.0.0.1"
_LEAVE_S = 3  # grace period for open requests after an interrupt: a page that follows a run stays connected


def check_installed() -> None:
    """Raise MissingExtraError without the extra `view`."""
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"The viewer needs the package {package}, which is not installed. Run: {install_command('view')}"
            )


def listen(port: int) -> socket.socket:
    """Return a socket on the loopback address; port 0 takes any port. Raises: AgentGymError if the port is taken."""
    # asyncio sets TCP_NODELAY only for an explicit protocol; without it, small answers wait 40 ms for an ACK.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen(128)  # lets a browser connect before the server is ready
    except OSError as error:
        listening.close()
        raise AgentGymError(
            f"Port {port} cannot be used: {error.strerror}. Choose another by --port, or use --port 0 for any free one."
        ) from error
    return listening


def serve(paths: Sequence[Path], listening: socket.socket, *, ready: Callable[[Any], None] | None = None) -> None:
    """Serve the runs under some paths until interrupted.

    Args:
        listening: the socket from `listen`, which is closed at the end.
        ready: called before the start with uvicorn's server; set its `should_exit` to end it.
    Raises: MissingExtraError without the extra `view`.
    """
    check_installed()
    import uvicorn

    from agentgym.viewer.application import application

    app = Guard(application(paths), listening.getsockname()[1])
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=_LEAVE_S,
        )
    )
    if ready is not None:
        ready(server)
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
