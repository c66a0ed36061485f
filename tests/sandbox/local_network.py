"""Real servers on the host's loopback, an invented Internet of names that lead to them, and raw clients of a proxy."""

from __future__ import annotations

import contextlib
import http.server
import ipaddress
import socket
import ssl
import threading
from pathlib import Path

from agentgym.sandbox.network import exchange
from agentgym.sandbox.network.account import NetworkLimits
from agentgym.sandbox.network.proxy import Proxy, SandboxNetwork

CERTIFICATE = Path(__file__).parent / "certificate.pem"  # self-made, for *.allowed.test and 127.0.0.1; no secret
NAMES = ("allowed.test", "*.allowed.test", "127.0.0.1:8000")
PUBLIC = "93.184.216.34"
ADDRESSES = {
    "allowed.test": [PUBLIC],
    "deep.allowed.test": [PUBLIC],
    "other.test": [PUBLIC],
    "private.allowed.test": ["10.0.0.7"],
    "loop.allowed.test": ["127.0.0.1", "::1", "::ffff:127.0.0.1"],
    "metadata.allowed.test": ["169.254.169.254"],
    "mixed.allowed.test": ["127.0.0.1", PUBLIC],
}


def service_threads() -> int:
    """Threads of proxies and networks alive in this process."""
    return sum(thread.name in ("agentgym-proxy", "agentgym-network") for thread in threading.enumerate())


class Server:
    """A server in a thread, with or without TLS, that answers with a page it has, or with what it was asked."""

    def __init__(self, *, tls: bool = False) -> None:
        self.heads: list[str] = []
        self.pages: dict[str, tuple[str, bytes]] = {}  # by path: type and content
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self) -> None:
                server.heads.append(f"{self.requestline}\n{self.headers}")
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                answer = f"{self.command} {self.path} with {len(body)} bytes\n".encode()
                kind, answer = server.pages.get(self.path, ("text/plain", answer))
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_GET = do_POST = do_HEAD = answer

            def log_message(self, *_: object) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] - a client that hangs up
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            # the handshake belongs to the connection's own thread, not to the one that accepts
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class LocalNetwork:
    """A plain server that every public name leads to on port 80, and a TLS one on 443; and what was dialled."""

    def __init__(self) -> None:
        self.plain, self.tls = Server(), Server(tls=True)
        self.addresses = dict(ADDRESSES)
        self.dialled: list[str] = []
        self.ports = {80: self.plain.port, 443: self.tls.port}

    async def resolve(self, host: str, port: int) -> list[exchange.Address]:
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [ipaddress.ip_address(text) for text in self.addresses[host]]

    async def dial(self, address: exchange.Address, port: int) -> socket.socket:
        self.dialled.append(f"{address}:{port}")
        if str(address) == PUBLIC:
            return await exchange.dial(ipaddress.ip_address("127.0.0.1"), self.ports[port])
        return await exchange.dial(address, port)

    def proxy(self, **limits: float) -> Proxy:
        return Proxy(NetworkLimits(**limits), resolve=self.resolve, dial=self.dial)

    def close(self) -> None:
        self.plain.close()
        self.tls.close()


class Client:
    """A sandbox's proxy without the sandbox: the same listening socket, on the host's loopback."""

    def __init__(self, proxy: Proxy, names: tuple[str, ...], transfer_mib: int | None = None) -> None:
        self.proxy = proxy
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.network: SandboxNetwork = proxy.serve(listener, names, transfer_mib=transfer_mib)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def say(self, *pieces: bytes) -> bytes:
        """Send a request as it stands and read the answer to its end."""
        with self.connect() as stream:
            with contextlib.suppress(OSError):
                for piece in pieces:
                    stream.sendall(piece)
            return everything(stream)

    def last(self):
        return self.network.connections[-1]

    def close(self) -> None:
        self.network.close()
        self.proxy.close()


def everything(stream: socket.socket) -> bytes:
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := stream.recv(65_536):
            pieces.append(piece)
    return b"".join(pieces)


def get(url: str, *headers: str, host: str = "allowed.test", method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {url} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode("latin-1")


def status(answer: bytes) -> int:
    return int(answer.split()[1])
