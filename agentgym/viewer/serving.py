"""Start the page's server, on this machine's loopback address only, and admit only the page's own requests."""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym._imports import install_command
from agentgym.errors import AgentGymError, MissingExtraError

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

NAMES = ("127.0.0.1", "localhost", "[::1]")
"""This machine's names in a local browser. A foreign page that rebinds its name to 127.0.0.1 sends its own name."""

NOTE_PATH = re.compile(r"/api/runs/[^/]+/note")
"""The only path that accepts a POST request."""
MAX_BODY_BYTES = 32_768

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Wrap an application: refuse a foreign Host or Origin, and add the headers above. Only notes are written.

    Args:
        port: the only port that a Host header may name.
    """

    def __init__(self, application: Application, port: int) -> None:
        self._application = application
        self._hosts = {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port == 80 else set())

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._application(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close"})
        if (refused := self._refusal(scope)) is not None:
            status, reason = refused
            head = [(b"content-type", b"text/plain; charset=utf-8"), *_encoded(HEADERS)]
            await send({"type": "http.response.start", "status": status, "headers": head})
            return await send({"type": "http.response.body", "body": reason.encode()})

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in _encoded(HEADERS) if h[0] not in own)]
            await send(message)

        await self._application(scope, receive, sending)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "This page is served to this machine alone: open it as 127.0.0.1 or localhost.\n"
        if scope["method"] == "POST" and NOTE_PATH.fullmatch(scope["path"]):
            if [value for name, value in headers if name == b"origin"] != [f"http://{hosts[0]}"]:
                return 403, "Only the page itself may write notes.\n"
            lengths = [value for name, value in headers if name == b"content-length"]
            if len(lengths) != 1 or not lengths[0].isdecimal() or int(lengths[0]) > MAX_BODY_BYTES:
                return 413, "This is too long for a note.\n"
        elif scope["method"] not in ("GET", "HEAD"):
            return 405, "Runs are only read here.\n"
        if any(value not in ("same-origin", "none") for name, value in headers if name == b"sec-fetch-site") and (
            scope["path"] != "/"  # a link to the page from elsewhere is fine; embedding what it reads is not
        ):
            return 403, "Only the page itself may ask for this.\n"
        return None


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


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


def serve(
    paths: Sequence[Path],
    listening: socket.socket,
    *,
    token: str | None = None,
    ready: Callable[[Any], None] | None = None,
) -> None:
    """Serve the runs under some paths until interrupted.

    Args:
        listening: the socket from `listen`, which is closed at the end.
        token: what a request must send to write a note; with None, notes are only read.
        ready: called before the start with uvicorn's server; set its `should_exit` to end it.
    Raises: MissingExtraError without the extra `view`.
    """
    check_installed()
    import uvicorn

    from agentgym.viewer.application import application

    app = Guard(application(paths, token), listening.getsockname()[1])
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
