"""One connection from a program in a sandbox to its proxy: one request, checked and carried out.

Both kinds of request are checked strictly. `CONNECT name:port` opens a tunnel that must begin with a TLS hello for that
name; the proxy parses nothing after the hello. `GET http://name/path` is parsed and rewritten, so that the server reads
exactly what was checked. Each connection carries one request, so that no second one can be smuggled in.

Hand-written on h11: proxy libraries forward what they do not understand, and this proxy must refuse it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable

import h11

from agentgym.sandbox.allow_list import Address, AllowList, Destination
from agentgym.sandbox.network.account import Account, Entry, PacedSocket, Refusal, Work
from agentgym.sandbox.network.addresses import is_own, why_not_public
from agentgym.sandbox.network.client_hello import ALERT_UNRECOGNISED_NAME, read_client_hello
from agentgym.sandbox.network.forwarding import FRAMING, end_to_end, next_event

Resolve = Callable[[str, int], Awaitable[list[Address]]]
Dial = Callable[[Address, int], Awaitable[socket.socket]]

_MAX_CHECKED, _MAX_TRIED = 32, 4  # the most addresses per name that are checked, and that are tried
_LINGER_S = 2.0
_LINGER_BYTES = 1 << 20
_URL = re.compile(rb"[hH][tT][tT][pP]://([^/?#@\\]*)([/?][^#]*)?")


async def dial(address: Address, port: int) -> socket.socket:
    """Connect to an address. Raises: OSError."""
    connection = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6)
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connection, (str(address), port))
    except BaseException:
        connection.close()
        raise
    return connection


class Exchange:
    """Serves one client socket to its end. Runs in the proxy's event loop."""

    def __init__(
        self, client: socket.socket, allow_list: AllowList, account: Account, resolve: Resolve, dial: Dial
    ) -> None:
        self._allow_list, self._account, self._limits = allow_list, account, account.limits
        self._client = PacedSocket(client, account)
        self._resolve, self._dial = resolve, dial
        self._loop = asyncio.get_running_loop()
        self._clock = asyncio.timeout(None)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.header_bytes)
        self._server: PacedSocket | None = None
        self._entry: Entry | None = None
        self._answered, self._alert = False, b""  # inside a tunnel, the alert is sent instead of an HTTP response
        self._step = "waiting for a slot"
        self._task = asyncio.current_task()
        self.quiet_since = self._loop.time()

    def give_way(self) -> None:
        """End soon without an answer, because there are too many connections and this sandbox has the most."""
        self._record(Refusal(503, "The connection was ended to make room: the sandboxes have too many connections."))
        assert self._task is not None
        self._task.cancel()

    async def run(self) -> None:
        """Answer the request. Raises nothing; the caller closes the client's socket."""
        try:
            async with asyncio.timeout(self._limits.total_s), self._clock:
                await self._serve()
        except Refusal as refusal:
            await self._refuse(refusal)
        except TimeoutError:
            status = 408 if self._server is None and self._entry is None else 504
            await self._refuse(Refusal(status, f"The connection was ended: it took too long while {self._step}."))
        except h11.RemoteProtocolError as error:
            side = "request" if self._server is None else "exchange"
            await self._refuse(Refusal(error.error_status_hint, f"The {side} is not valid HTTP: {error}."))
        except OSError as error:
            await self._refuse(Refusal(502, f"The connection broke while {self._step}: {error.strerror or error}."))
        finally:
            if self._server is not None:
                self._server.close()

    async def _serve(self) -> None:
        self._allow_s(self._limits.header_s, "reading the request")
        request = await self._request()
        if request is None:
            return
        if request.http_version not in (b"1.0", b"1.1"):
            raise Refusal(505, "This proxy supports only HTTP/1.1 and HTTP/1.0.")
        if request.method == b"CONNECT":
            await self._tunnel(request)
        else:
            await self._forward(request)

    async def _request(self) -> h11.Request | None:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._client.receive())
        return event if isinstance(event, h11.Request) else None

    def _allow_s(self, seconds: float, step: str) -> None:
        """Begin a step with its own time limit."""
        self._step = step
        self._clock.reschedule(self._loop.time() + seconds)

    # Destinations

    def _destination(self, authority: bytes, default_port: int | None) -> Destination:
        """Read a destination. Raises: Refusal if it cannot be parsed or is not on the allow list."""
        try:
            destination = Destination.parse(authority.decode("ascii"), default_port)
        except ValueError as error:
            raise Refusal(400, f"{error}.") from error
        self._entry = self._account.enter(destination.host, destination.port)
        if not self._allow_list.allow(destination):
            raise Refusal(403, f"{destination} is not on the allow list of this sandbox: {self._allow_list}.")
        return destination

    async def _connect(self, destination: Destination) -> PacedSocket:
        """Connect to an address that has just been checked, whatever the name resolves to a moment later.

        Raises: Refusal if no address is allowed, or none answers.
        """
        assert self._entry is not None
        self._allow_s(self._limits.connect_s, f"connecting to {destination}")
        if destination.address:
            addresses = [destination.address]
        else:
            addresses = self._allow_list.addresses(destination) or await self._public_addresses(destination)
        self._entry.allowed = True
        error_text = ""
        for address in addresses[:_MAX_TRIED]:
            try:
                async with asyncio.timeout(self._limits.connect_s / min(len(addresses), _MAX_TRIED)):
                    self._server = PacedSocket(await self._dial(address, destination.port), self._account)
                    return self._server
            except TimeoutError:
                error_text = "no answer"
            except OSError as error:
                error_text = error.strerror or str(error)
        raise Refusal(502, f"{destination} cannot be reached: {error_text}.")

    async def _public_addresses(self, destination: Destination) -> list[Address]:
        try:
            addresses = (await self._resolve(destination.host, destination.port))[:_MAX_CHECKED]
        except OSError as error:
            raise Refusal(502, f"{destination.host} has no known address: {error.strerror or error}.") from error
        problems = {address: why_not_public(address) or _own(address) for address in addresses}
        public = [address for address in addresses if not problems[address]]
        if not public:
            named = "; ".join(f"{address} is {why}" for address, why in list(problems.items())[:_MAX_TRIED])
            raise Refusal(
                403,
                f"{destination.host} has no public address ({named or 'it has no address'}). To allow it, "
                f"write a rule with the address itself, as in '127.0.0.1:{destination.port}'.",
            )
        return public

    # HTTPS: a tunnel

    async def _tunnel(self, request: h11.Request) -> None:
        destination = self._destination(request.target, None)
        self._check_host(request, destination, destination.port)
        if any(name in FRAMING for name, _ in request.headers):
            raise Refusal(400, "A CONNECT request must not have a body.")
        server = await self._connect(destination)
        while self._http.next_event() not in (h11.PAUSED, h11.NEED_DATA):
            pass  # read to the end of the request; the following bytes are not HTTP
        await self._to_client(self._http.send(h11.Response(status_code=200, headers=[], reason=b"Connected")))
        self._allow_s(self._limits.header_s, "waiting for the TLS hello")
        self._alert = ALERT_UNRECOGNISED_NAME
        first = await self._hello(destination, self._http.trailing_data[0])
        self._alert = b""
        self._moved("waiting for the other side")
        await self._to_server(server, first)
        await self._until_first(lambda: self._pump_down(server), lambda: self._pump_up(server))

    async def _hello(self, destination: Destination, data: bytes) -> bytes:
        """Return the first bytes of a tunnel. Raises: Refusal unless they are a TLS hello for the requested name."""
        hello = None
        try:
            while (hello := read_client_hello(data)) is None:
                if len(data) > self._limits.header_bytes:
                    raise ValueError(f"a TLS client hello of more than {self._limits.header_bytes} bytes")
                piece = await self._client.receive()
                if not piece:
                    raise ValueError("the connection ended without any data")
                data += piece
            named = None if hello.server_name is None else Destination.parse(hello.server_name + f":{destination.port}")
        except ValueError as error:
            raise Refusal(403, f"A tunnel must carry TLS, but this one began with {error}.") from error
        if (destination.address is None and named != destination) or (
            destination.address is not None and named is not None
        ):
            raise Refusal(
                403,
                f"The TLS client hello asks for {named.host if named else 'no name'}, but the tunnel was opened to "
                f"{destination}.",
            )
        return data

    async def _pump_up(self, server: PacedSocket) -> None:
        while piece := await self._client.receive():
            if not await self._passed_on(server, piece):
                return
        with contextlib.suppress(OSError):
            server.shut()

    async def _pump_down(self, server: PacedSocket) -> None:
        while piece := await self._from_server(server):
            await self._to_client(piece)

    async def _until_first(self, main: Work, beside: Work) -> None:
        """Run both coroutines until `main` ends; if `beside` fails, both end."""
        tasks = [asyncio.create_task(self._account.metered(work)) for work in (main, beside)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not tasks[0].done():
                await tasks[1]
            await tasks[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # HTTP: the same request, written again by the proxy

    async def _forward(self, request: h11.Request) -> None:
        url = _URL.fullmatch(request.target)
        if url is None:
            raise Refusal(
                400,
                "This is the sandbox's proxy. Send 'GET http://name/path' with the whole URL, without user or "
                "fragment; for https, send CONNECT.",
            )
        destination = self._destination(url[1], 80)
        self._check_host(request, destination, 80)
        if sum(name in FRAMING for name, _ in request.headers) > 1:
            raise Refusal(400, "The request gives its length twice: send Content-Length or Transfer-Encoding.")
        server = await self._connect(destination)
        upstream = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * self._limits.header_bytes)
        path = url[2] or b"/"
        head = h11.Request(
            method=request.method,
            target=path if path.startswith(b"/") else b"/" + path,
            headers=[(b"host", _authority(destination, 80)), *end_to_end(request.headers), (b"connection", b"close")],
        )
        self._moved("waiting for the server's answer")
        await self._to_server(server, upstream.send(head) or b"")
        await self._until_first(lambda: self._answer(server, upstream), lambda: self._send_body(server, upstream))

    async def _send_body(self, server: PacedSocket, upstream: h11.Connection) -> None:
        """Forward the request's body. If the client waits for `100 Continue`, the proxy sends it."""
        if self._http.they_are_waiting_for_100_continue:
            leave = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            await self._to_client(self._http.send(leave))
        while True:
            data, event = next_event(self._http)
            if data and not await self._passed_on(server, upstream.send(h11.Data(data=data)) or b""):
                return
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._client.receive())
            elif event is None:
                await self._account.pace()
            elif isinstance(event, h11.EndOfMessage):
                await self._passed_on(server, upstream.send(h11.EndOfMessage()) or b"")
                return
            else:
                raise Refusal(400, "The request ended before its body was complete.")

    async def _answer(self, server: PacedSocket, upstream: h11.Connection) -> None:
        """Rewrite and forward the server's response."""
        while True:
            data, event = next_event(upstream)
            if data:
                await self._to_client(self._http.send(h11.Data(data=data)))
            if event is h11.NEED_DATA:
                upstream.receive_data(await self._from_server(server))
            elif isinstance(event, h11.InformationalResponse):
                if event.status_code == 101:
                    raise Refusal(502, "The server switched to another protocol, which was not requested.")
            elif isinstance(event, h11.Response):
                headers = [*end_to_end(event.headers), (b"connection", b"close")]
                self._answered = True
                await self._to_client(
                    self._http.send(h11.Response(status_code=event.status_code, headers=headers, reason=event.reason))
                )
            elif event is None:
                await self._account.pace()
            elif isinstance(event, h11.EndOfMessage):
                await self._to_client(self._http.send(h11.EndOfMessage()))
                return
            else:
                raise Refusal(502, "The server closed the connection without an answer.")

    def _check_host(self, request: h11.Request, destination: Destination, default_port: int) -> None:
        """Refuse a Host header that differs from the target."""
        for name, value in request.headers:
            if name == b"host":
                try:
                    same = Destination.parse(value.decode("ascii"), default_port) == destination
                except ValueError:
                    same = False
                if not same:
                    raise Refusal(
                        400,
                        f"The Host header {value!r:.80} differs from the target {destination}.",
                    )

    # Bytes

    def _moved(self, step: str | None = None) -> None:
        self.quiet_since = self._loop.time()
        self._allow_s(self._limits.idle_s, step or self._step)

    async def _to_client(self, data: bytes | None) -> None:
        if data:
            await self._client.send(data)
            self._moved()

    async def _to_server(self, server: PacedSocket, data: bytes) -> None:
        assert self._entry is not None
        self._account.spend(len(data))
        await server.send(data)
        self._entry.sent += len(data)
        self._moved()

    async def _passed_on(self, server: PacedSocket, data: bytes) -> bool:
        """Send data to the server. Returns: False if it stopped reading; its response, such as 413, may still come."""
        try:
            await self._to_server(server, data)
        except OSError:
            return False
        return True

    async def _from_server(self, server: PacedSocket) -> bytes:
        assert self._entry is not None
        data = await server.receive()
        self._entry.received += len(data)
        self._account.spend(len(data))
        self._moved()
        return data

    # Refusals

    def _record(self, refusal: Refusal) -> None:
        if self._entry is None:
            with contextlib.suppress(Refusal):
                self._entry = self._account.enter("", 0)
        if self._entry is not None:
            self._entry.reason = refusal.message
            self._entry.allowed = self._entry.allowed and refusal.status != 403

    async def _refuse(self, refusal: Refusal) -> None:
        """Record the reason, and send it if the client can still receive it."""
        self._record(refusal)
        with contextlib.suppress(OSError, TimeoutError, h11.ProtocolError):
            async with asyncio.timeout(_LINGER_S):
                await self._client.send(self._refusal_bytes(refusal))
                await self._linger()

    def _refusal_bytes(self, refusal: Refusal) -> bytes:
        if self._http.our_state is h11.SWITCHED_PROTOCOL:
            return self._alert
        if self._answered or self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return b""
        body = f"{refusal.message}\n".encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        # the status line has the reason too: for a refused tunnel, most clients show nothing else
        head = h11.Response(status_code=refusal.status, headers=headers, reason=refusal.message[:300].encode())
        parts = [self._http.send(event) for event in (head, h11.Data(data=body), h11.EndOfMessage())]
        return b"".join(part or b"" for part in parts)

    async def _linger(self) -> None:
        """Keep reading for a moment: closing with unread bytes would reset the connection and lose the response."""
        self._client.shut()
        taken = 0
        while taken < _LINGER_BYTES and (piece := await self._client.receive()):
            taken += len(piece)


def _own(address: Address) -> str:
    return "an address of this machine" if is_own(address) else ""


def _authority(destination: Destination, default_port: int) -> bytes:
    text = str(destination)
    return (text.removesuffix(f":{default_port}") if destination.port == default_port else text).encode()
