"""The byte stream between the driver and the host in a pod: by exec of the API server, or to a port of the pod.

The pod's container says which: one that declares a port named `agentgym` is called directly.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from agentgym.cluster import hosts

from .api import KubernetesApi

PORT_NAME = "agentgym"
SECRET = "agentgym-pods"
"""The Secret with the certificate of the pods and the token of the drivers."""
CONNECT_S = 15.0
_READ_BYTES = 1 << 16
_STDIN, _STDOUT, _STDERR, _ERROR = range(4)


class HostStream(Protocol):
    """A stream to the host in a pod."""

    @property
    def end(self) -> str:
        """Why it has ended."""

    async def send(self, data: bytes) -> None:
        """Send bytes, whole. Raises: OSError, RuntimeError once the connection is closed."""

    def received(self) -> AsyncIterator[bytes]:
        """Yield what the host sends, until the stream ends."""

    async def close(self) -> None: ...


class ExecStream:
    """The stream of a program that the API server has started in a pod.

    Args:
        socket: the WebSocket of its streams.
    """

    def __init__(self, socket: Any) -> None:
        self._socket, self._complaints, self._end = socket, b"", "the connection broke"

    @property
    def end(self) -> str:
        last_words = self._complaints.decode("utf-8", "replace").strip()
        return self._end + (f". Its last words: {last_words}" if last_words else "")

    async def send(self, data: bytes) -> None:
        await self._socket.send_bytes(bytes([_STDIN]) + data)

    async def received(self) -> AsyncIterator[bytes]:
        async for frame in self._socket:
            channel, data = frame.data[0], frame.data[1:]
            if channel == _STDOUT:
                yield data
            elif channel == _STDERR:
                self._complaints = (self._complaints + data)[-1000:]
            elif channel == _ERROR:
                self._end = "its host ended: " + data[:500].decode("utf-8", "replace")

    async def close(self) -> None:
        await self._socket.close()


class DirectStream:
    """A TLS connection to the port of a pod, whose listener has started a host for this driver."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.end = "its host ended, or the connection broke"

    @classmethod
    async def open(cls, address: str, port: int, secret: Mapping[str, str], order: Mapping[str, Any]) -> DirectStream:
        """Connect to a pod and order a host. Raises: ClusterError."""
        try:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            tls.check_hostname = False  # the pods share a certificate, which is in the Secret
            tls.load_verify_locations(cadata=_decoded(secret, "tls.crt"))
            greeting = json.dumps({"token": _decoded(secret, "token").strip(), **order}).encode() + b"\n"
        except (KeyError, ValueError, ssl.SSLError) as error:
            raise hosts.ClusterError(
                f"The Secret {SECRET} lacks a usable tls.crt or token ({error}). docs/scale.md has the command for it."
            ) from error
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(address, port, ssl=tls)
                writer.write(greeting)
                await writer.drain()
        except ssl.SSLCertVerificationError as error:
            raise hosts.ClusterError(
                f"The pod at {address}:{port} has another certificate than the Secret {SECRET} "
                f"({error.verify_message}). Start the pods of the warm pool anew."
            ) from error
        except OSError as error:  # TimeoutError is one
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise hosts.ClusterError(
                f"The pod's port {address}:{port} cannot be reached ({reason}). Run this in the network of the pods, "
                "from a pod that the NetworkPolicy of the template lets in."
            ) from error
        return cls(reader, writer)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def received(self) -> AsyncIterator[bytes]:
        while data := await self._reader.read(_READ_BYTES):
            yield data

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()


async def open_stream(api: KubernetesApi, name: str, python: str, backend: str | None, lease_s: float) -> HostStream:
    """Start a host in a pod, or order one from its listener.

    Args:
        backend: what makes the sandboxes; None for the listener's choice, or `namespaces` without a listener.
    Raises: ClusterError.
    """
    pod = await api.read("pods", name, "")
    if (port := _port_of(pod)) is None:
        return ExecStream(await api.exec(name, host_command(python, backend or "namespaces", lease_s, os.getpid())))
    address = str(pod["status"].get("podIP") or "")
    if not address:
        raise hosts.ClusterError(f"The pod {name} has no address yet.")
    secret = await api.read("secrets", SECRET, "")
    order = {"lease_s": lease_s, "driver": os.getpid()} | ({"backend": backend} if backend else {})
    return await DirectStream.open(address, port, secret.get("data") or {}, order)


def host_command(python: str, backend: str, lease_s: float, driver: int) -> Sequence[str]:
    """Return the command that starts a host in a pod for the process `driver`."""
    program = [python, "-m", "agentgym.bridges.kubernetes.pod_host", "--backend", backend]
    return [*program, "--lease-s", f"{lease_s:g}", "--driver", str(driver)]


def _port_of(pod: Mapping[str, Any]) -> int | None:
    """Return the port on which a pod waits for drivers; None if it declares none."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    ports = (port for container in containers for port in container.get("ports") or ())
    return next((int(port["containerPort"]) for port in ports if port.get("name") == PORT_NAME), None)


def _decoded(secret: Mapping[str, str], key: str) -> str:
    return base64.b64decode(secret[key], validate=True).decode()
