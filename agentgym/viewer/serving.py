"""Starts the server of the page, on this machine's own address and nowhere else."""

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
_LEAVE_S = 3  # for pages to be answered once it is interrupted: a page that follows a run stays connected


def check_installed() -> None:
    """Raise MissingExtraError without the extra `view`."""
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"The viewer needs {package}, which is not installed. Run: {install_command('view')}"
            )


def listen(port: int) -> socket.socket:
    """Return a socket on this machine's own address; port 0 takes any. Raises: AgentGymError when it is taken."""
    # With the protocol named asyncio sets TCP_NODELAY; otherwise each small answer waits 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
        listening.listen(128)  # a browser that is quicker than the server waits
    except OSError as error:
        listening.close()
        raise AgentGymError(
            f"Port {port} cannot be used: {error.strerror}. Choose another by --port, or let any be taken by --port 0."
        ) from error
    return listening


def serve(paths: Sequence[Path], listening: socket.socket, *, ready: Callable[[Any], None] | None = None) -> None:
    """Show the runs under some paths until it is interrupted.

    Args:
        listening: from `listen`. It is closed at the end.
        ready: called with uvicorn's server before it starts, whose `should_exit` ends it.
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
