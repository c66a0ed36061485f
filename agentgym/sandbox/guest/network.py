"""The sandbox's only connection to a network: a listening socket inside the sandbox that only the host serves."""

from __future__ import annotations

import socket

from .frames import PROXY_ADDRESS

_BACKLOG = 64


def hand_over_listener(stream: int) -> None:
    """Listen where programs expect their proxy, send the socket to the host, and keep no copy.

    The address stays in use while the host holds the socket: no program in the sandbox can pose as the proxy.
    """
    with socket.create_server(PROXY_ADDRESS, backlog=_BACKLOG) as listener, socket.socket(fileno=stream) as host:
        try:
            socket.send_fds(host, [b"l"], [listener.fileno()])
        finally:
            host.detach()  # the caller owns the descriptor
