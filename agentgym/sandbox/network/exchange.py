"""One connection that a program in a sandbox opens to its proxy: one request, checked and carried out.

Both ways in are strict. `CONNECT name:port` opens a tunnel that must begin with a TLS hello for that very name;
the proxy reads nothing after it. `GET http://name/path` is parsed, and written anew for the server, so that what
the server reads is what was checked. One request a connection: nothing can be smuggled in behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import h11

from agentgym.sandbox.network.account import Account, Entry, Refusal
from agentgym.sandbox.network.addresses import is_own, why_not_public
from agentgym.sandbox.network.allow_list import Address, AllowList, Destination
from agentgym.sandbox.network.hello import ALERT_UNRECOGNISED_NAME, read_client_hello

Resolve = Callable[[str, int], Awaitable[list[Address]]]
Dial = Callable[[Address, int], Awaitable[socket.socket]]
Headers = list[tuple[bytes, bytes]]

_PIECE = 1 << 16
_LOOKED_AT, _TRIED = 32, 4  # addresses of one name
_FAREWELL_S = 2.0
_FAREWELL_BYTES = 1 << 20
_URL = re.compile(rb"[hH][tT][tT][pP]://([^/?#@\\]*)([/?][^#]*)?")
_FRAMING = {b"content-length", b"transfer-encoding"}
_OF_ONE_HOP = {b"connection", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"keep-alive",
               b"te", b"trailer", b"upgrade", b"expect", b"host"}  # fmt: skip


async def dial(address: Address, port: int) -> socket.socket:
    """A connection to an address. Raises: OSError."""
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
    """Serves one client socket, to its end. Runs in the proxy's event loop."""

    def __init__(
        self, client: socket.socket, allow_list: AllowList, account: Account, resolve: Resolve, dial: Dial
    ) -> None:
        self._client, self._allow_list, self._account, self._limits = client, allow_list, account, account.limits
        self._resolve, self._dial = resolve, dial
        self._loop = asyncio.get_running_loop()
        self._clock = asyncio.timeout(self._limits.header_s)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.header_bytes)
        self._server: socket.socket | None = None
        self._entry: Entry | None = None
        self._answered, self._alert = False, b""  # the alert: what a refusal says where HTTP has ended
        self._doing = "reading the request"

    async def run(self) -> None:
        """Answer the request, whatever it is. Raises nothing; the caller closes the client's socket."""
        try:
            async with asyncio.timeout(self._limits.total_s), self._clock:
                await self._serve()
        except Refusal as refusal:
            await self._refuse(refusal)
        except TimeoutError:
            status = 408 if self._server is None and self._entry is None else 504
            await self._refuse(Refusal(status, f"It took too long: the time ended while {self._doing}."))
        except h11.RemoteProtocolError as error:
            side = "request" if self._server is None else "exchange"
            await self._refuse(Refusal(error.error_status_hint, f"The {side} is no HTTP: {error}."))
        except OSError as error:
            await self._refuse(Refusal(502, f"The connection broke while {self._doing}: {error.strerror or error}."))
        finally:
            if self._server is not None:
                self._server.close()

    async def _serve(self) -> None:
        request = await self._request()
        if request is None:
            return
        if request.http_version not in (b"1.0", b"1.1"):
            raise Refusal(505, "This proxy speaks HTTP/1.1 and HTTP/1.0.")
        if request.method == b"CONNECT":
            await self._tunnel(request)
        else:
            await self._forward(request)

    async def _request(self) -> h11.Request | None:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._from_client())
        return event if isinstance(event, h11.Request) else None

    def _allow_s(self, seconds: float, doing: str) -> None:
        """Begin a step that has its own time limit."""
        self._doing = doing
        self._clock.reschedule(self._loop.time() + seconds)

    # Where it may go

    def _destination(self, authority: bytes, default_port: int | None) -> Destination:
        """Raises: Refusal of what cannot be read, or is not on the list."""
        try:
            place = Destination.parse(authority.decode("ascii"), default_port)
        except ValueError as error:
            raise Refusal(400, f"{error}.") from error
        self._entry = self._account.enter(place.host, place.port)
        if not self._allow_list.allow(place):
            raise Refusal(403, f"{place} is not among the places this sandbox may reach: {self._allow_list}.")
        return place

    async def _connect(self, place: Destination) -> socket.socket:
        """Connect to an address of the place that has been checked: that one, whatever the name means a moment later.

        Raises: Refusal if it has none that is allowed, or none that answers.
        """
        assert self._entry is not None
        self._allow_s(self._limits.connect_s, f"connecting to {place}")
        addresses = [place.address] if place.address else await self._public_addresses(place)
        self._entry.allowed = True
        trouble = ""
        for address in addresses[:_TRIED]:
            try:
                async with asyncio.timeout(self._limits.connect_s / min(len(addresses), _TRIED)):
                    self._server = await self._dial(address, place.port)
                    return self._server
            except TimeoutError:
                trouble = "no answer"
            except OSError as error:
                trouble = error.strerror or str(error)
        raise Refusal(502, f"{place} cannot be reached: {trouble}.")

    async def _public_addresses(self, place: Destination) -> list[Address]:
        try:
            found = (await self._resolve(place.host, place.port))[:_LOOKED_AT]
        except OSError as error:
            raise Refusal(502, f"{place.host} has no address: {error.strerror or error}.") from error
        trouble = {address: why_not_public(address) or _own(address) for address in found}
        public = [address for address in found if not trouble[address]]
        if not public:
            named = "; ".join(f"{address} is {why}" for address, why in list(trouble.items())[:_TRIED])
            raise Refusal(
                403, f"{place.host} leads nowhere public ({named or 'it has no address'}). Only a rule that names "
                f"such an address itself, as in '127.0.0.1:{place.port}', allows it."
            )  # fmt: skip
        return public

    # HTTPS: a tunnel

    async def _tunnel(self, request: h11.Request) -> None:
        place = self._destination(request.target, None)
        self._check_host(request, place, place.port)
        if any(name in _FRAMING for name, _ in request.headers):
            raise Refusal(400, "A CONNECT request has no body.")
        server = await self._connect(place)
        while self._http.next_event() not in (h11.PAUSED, h11.NEED_DATA):
            pass  # its end; what follows is not HTTP
        await self._to_client(self._http.send(h11.Response(status_code=200, headers=[], reason=b"Connected")))
        self._allow_s(self._limits.header_s, "waiting for the TLS hello")
        self._alert = ALERT_UNRECOGNISED_NAME
        first = await self._hello(place, self._http.trailing_data[0])
        self._alert = b""
        self._moved("waiting for the other side")
        await self._to_server(server, first)
        await _until_first(self._pump_down(server), self._pump_up(server))

    async def _hello(self, place: Destination, data: bytes) -> bytes:
        """The first bytes of a tunnel. Raises: Refusal unless they are a TLS hello for the name that was asked for."""
        hello = None
        try:
            while (hello := read_client_hello(data)) is None:
                if len(data) > self._limits.header_bytes:
                    raise ValueError(f"a TLS hello of more than {self._limits.header_bytes} bytes")
                piece = await self._from_client()
                if not piece:
                    raise ValueError("a stream that ends before it has begun")
                data += piece
            named = None if hello.server_name is None else Destination.parse(hello.server_name + f":{place.port}")
        except ValueError as error:
            raise Refusal(403, f"A tunnel carries TLS only; this one began with {error}.") from error
        if (place.address is None and named != place) or (place.address is not None and named is not None):
            raise Refusal(403, f"The TLS hello is for {named.host if named else 'no name'}, the tunnel for {place}.")
        return data

    async def _pump_up(self, server: socket.socket) -> None:
        while piece := await self._from_client():
            if not await self._passed_on(server, piece):
                return
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    async def _pump_down(self, server: socket.socket) -> None:
        while piece := await self._from_server(server):
            await self._to_client(piece)

    # HTTP: a request of our own, that says the same

    async def _forward(self, request: h11.Request) -> None:
        found = _URL.fullmatch(request.target)
        if found is None:
            raise Refusal(
                400, "This is the sandbox's proxy: it takes 'GET http://name/path' with the whole URL, without user "
                "or fragment, and CONNECT for https."
            )  # fmt: skip
        place = self._destination(found[1], 80)
        self._check_host(request, place, 80)
        if sum(name in _FRAMING for name, _ in request.headers) > 1:
            raise Refusal(400, "The request gives its length twice (Content-Length and Transfer-Encoding).")
        server = await self._connect(place)
        upstream = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * self._limits.header_bytes)
        path = found[2] or b"/"
        head = h11.Request(
            method=request.method,
            target=path if path.startswith(b"/") else b"/" + path,
            headers=[(b"host", _authority(place, 80)), *_end_to_end(request.headers), (b"connection", b"close")],
        )
        self._moved("waiting for the server's answer")
        await self._to_server(server, upstream.send(head) or b"")
        await _until_first(self._answer(server, upstream), self._send_body(server, upstream))

    async def _send_body(self, server: socket.socket, upstream: h11.Connection) -> None:
        """The request's body. A client that waits for leave to send it gets it from us."""
        if self._http.they_are_waiting_for_100_continue:
            leave = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            await self._to_client(self._http.send(leave))
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._from_client())
            elif isinstance(event, h11.Data):
                if not await self._passed_on(server, upstream.send(event) or b""):
                    return
            elif isinstance(event, h11.EndOfMessage):
                await self._passed_on(server, upstream.send(h11.EndOfMessage()) or b"")
                return
            else:
                raise Refusal(400, "The request ended before its body did.")

    async def _answer(self, server: socket.socket, upstream: h11.Connection) -> None:
        """The server's answer, in frames of our own."""
        while True:
            event = upstream.next_event()
            if event is h11.NEED_DATA:
                upstream.receive_data(await self._from_server(server))
            elif isinstance(event, h11.InformationalResponse):
                if event.status_code == 101:
                    raise Refusal(502, "The server wants another protocol, which nobody asked for.")
            elif isinstance(event, h11.Response):
                headers = [*_end_to_end(event.headers), (b"connection", b"close")]
                self._answered = True
                await self._to_client(
                    self._http.send(h11.Response(status_code=event.status_code, headers=headers, reason=event.reason))
                )
            elif isinstance(event, h11.Data):
                await self._to_client(self._http.send(h11.Data(data=event.data)))
            elif isinstance(event, h11.EndOfMessage):
                await self._to_client(self._http.send(h11.EndOfMessage()))
                return
            else:
                raise Refusal(502, "The server closed the connection without an answer.")

    def _check_host(self, request: h11.Request, place: Destination, default_port: int) -> None:
        """A Host header that says something else than the target is a trick, or a mistake."""
        for name, value in request.headers:
            if name == b"host":
                try:
                    same = Destination.parse(value.decode("ascii"), default_port) == place
                except ValueError:
                    same = False
                if not same:
                    raise Refusal(400, f"The Host header says {value!r:.80}, the request's target {place}.")

    # Bytes

    def _moved(self, doing: str | None = None) -> None:
        self._allow_s(self._limits.idle_s, doing or self._doing)

    async def _from_client(self) -> bytes:
        await self._account.pace()
        return await self._loop.sock_recv(self._client, _PIECE)

    async def _to_client(self, data: bytes | None) -> None:
        if data:
            await self._loop.sock_sendall(self._client, data)
            self._moved()

    async def _to_server(self, server: socket.socket, data: bytes) -> None:
        assert self._entry is not None
        self._account.spend(len(data))
        await self._loop.sock_sendall(server, data)
        self._entry.sent += len(data)
        self._moved()

    async def _passed_on(self, server: socket.socket, data: bytes) -> bool:
        """False if the server reads no more: what it still has to say, such as 'too large', may come all the same."""
        try:
            await self._to_server(server, data)
        except OSError:
            return False
        return True

    async def _from_server(self, server: socket.socket) -> bytes:
        assert self._entry is not None
        await self._account.pace()
        data = await self._loop.sock_recv(server, _PIECE)
        self._entry.received += len(data)
        self._account.spend(len(data))
        self._moved()
        return data

    # Saying no

    async def _refuse(self, refusal: Refusal) -> None:
        """Record why, and say so if the client can still be told."""
        if self._entry is None:
            with contextlib.suppress(Refusal):
                self._entry = self._account.enter("", 0)
        if self._entry is not None:
            self._entry.reason = refusal.sentence
            self._entry.allowed = self._entry.allowed and refusal.status != 403
        with contextlib.suppress(OSError, TimeoutError, h11.ProtocolError):
            async with asyncio.timeout(_FAREWELL_S):
                await self._loop.sock_sendall(self._client, self._parting_words(refusal))
                await self._linger()

    def _parting_words(self, refusal: Refusal) -> bytes:
        if self._http.our_state is h11.SWITCHED_PROTOCOL:
            return self._alert
        if self._answered or self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return b""
        body = f"{refusal.sentence}\n".encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]  # fmt: skip
        # the sentence stands in the status line too: of a refused tunnel, most clients show that and no more
        head = h11.Response(status_code=refusal.status, headers=headers, reason=refusal.sentence[:300].encode())
        parts = [self._http.send(event) for event in (head, h11.Data(data=body), h11.EndOfMessage())]
        return b"".join(part or b"" for part in parts)

    async def _linger(self) -> None:
        """Read on for a moment: closed with unread bytes, the connection would be reset and the answer lost."""
        self._client.shutdown(socket.SHUT_WR)
        taken = 0
        while taken < _FAREWELL_BYTES and (piece := await self._from_client()):
            taken += len(piece)


async def _until_first(main: Coroutine[Any, Any, None], beside: Coroutine[Any, Any, None]) -> None:
    """Run both until `main` ends; if `beside` fails, both have."""
    tasks = [asyncio.create_task(main), asyncio.create_task(beside)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            await tasks[1]
        await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _own(address: Address) -> str:
    return "an address of this machine" if is_own(address) else ""


def _authority(place: Destination, default_port: int) -> bytes:
    text = str(place)
    return (text.removesuffix(f":{default_port}") if place.port == default_port else text).encode()


def _end_to_end(headers: Any) -> Headers:
    """Headers that are meant for the other end, not for the next hop."""
    words = [word for name, value in headers if name == b"connection" for word in value.split(b",")]
    hop = _OF_ONE_HOP | ({word.strip().lower() for word in words} - _FRAMING)
    return [(name, value) for name, value in headers if name not in hop]
