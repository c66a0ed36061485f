"""The program of a pod that is called directly: it waits for one driver, and starts a SandboxHost for it.

    python3 -m agentgym.bridges.kubernetes.pod_listener --port 8652 --secret /var/run/agentgym

The folder has `tls.crt` and `tls.key` of this server, and `token`, which a driver must send. The first connection that
sends it has the pod to itself: later connections are closed, and the program ends with the driver. Until then,
connections that send nothing or something else are closed.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import json
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .streams import host_command

PORT = 8652
GREETING_S = 10.0
"""How long a connection may take to say who it is."""
GREETING_BYTES = 4096
STRANGERS = 32
"""How many connections may be about to say who they are."""
LAST_WORDS_S = 1.0
_READ_BYTES = 1 << 16


class PodListener:
    """Waits for a driver, and passes bytes between it and the host.

    Args:
        token: what a driver must send.
        backend: what makes the sandboxes, unless the driver says it.
    """

    def __init__(self, token: str, backend: str) -> None:
        self._token, self._backend, self._strangers = token.encode(), backend, 0
        self._is_taken = False
        self.ended = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to its end."""
        try:
            if self._is_taken or self._strangers >= STRANGERS:
                return
            order = await self._greeting(reader)
            if order is None or self._is_taken:
                return
            self._is_taken = True
            try:
                await serve({"backend": self._backend} | order, reader, writer)
            finally:
                self.ended.set()
        finally:
            with suppress(OSError):
                writer.close()

    async def _greeting(self, reader: asyncio.StreamReader) -> dict[str, Any] | None:
        """Return what a driver asks for; None for anything else than a driver."""
        self._strangers += 1
        try:
            async with asyncio.timeout(GREETING_S):
                line = await reader.readline()
            order = json.loads(line)
            is_ours = hmac.compare_digest(str(order["token"]).encode(), self._token)
        except (OSError, TimeoutError, ValueError, KeyError, TypeError, RecursionError):
            return None
        finally:
            self._strangers -= 1
        return order if is_ours else None


async def serve(order: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Start the host that a driver has ordered, and pass bytes until one of them ends."""
    command = host_command(sys.executable, str(order["backend"]), float(order["lease_s"]), int(order["driver"]))
    pipe = asyncio.subprocess.PIPE
    host = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd="/")
    assert host.stdin is not None
    assert host.stdout is not None
    passing = [asyncio.ensure_future(pass_on(reader, host.stdin)), asyncio.ensure_future(pass_on(host.stdout, writer))]
    try:
        await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        host.stdin.close()  # the host closes its sandboxes and ends
        await host.wait()
    finally:
        for each in passing:
            each.cancel()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until either side ends."""
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()


async def listen(address: str, port: int, secret: Path, backend: str) -> None:
    """Listen until a driver has come and gone."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.load_cert_chain(secret / "tls.crt", secret / "tls.key")
    listener = PodListener((secret / "token").read_text().strip(), backend)
    server = await asyncio.start_server(
        listener.connected, address, port, ssl=tls, limit=GREETING_BYTES, ssl_handshake_timeout=GREETING_S
    )
    async with server:
        await listener.ended.wait()


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=PORT, help="the port to listen on")
    parser.add_argument("--secret", type=Path, default=Path("/var/run/agentgym"), help="folder of the three files")
    parser.add_argument("--address", default="0.0.0.0", help="the address to listen on")
    parser.add_argument("--backend", default="landlock", help="what makes the sandboxes, by registered name")
    options = parser.parse_args()
    asyncio.run(listen(options.address, options.port, options.secret, options.backend))


if __name__ == "__main__":
    main()
