"""The application behind `agentgym serve environments`: access checks and answers.

GET    /v1/environments                          list the served environments
POST   /v1/environments/NAMESPACE/NAME           describe one: its tools and optional methods
POST   /v1/environments/NAMESPACE/NAME/episodes  open an episode, once there is room
POST   /v1/episodes/ID/OPERATION                 reset, call, respond ... (operations.py)
DELETE /v1/episodes/ID                           close an episode
POST   /v1/heartbeats                            renew leases

A refused request gets a status and {"error": {"kind", "message"}}. A client that disconnects cancels its request.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym import __version__, registry
from agentgym.cluster.served_episodes import EpisodeTable, ServerLimits, ServerRefusal
from agentgym.cluster.tokens import token_position
from agentgym.cluster.wire import PROTOCOL, PROTOCOL_HEADER, WireError, decode, description_of, encode, error_to_json
from agentgym.errors import AgentGymError
from agentgym.sandbox import Backend

SMALL = 64 * 1024
"""Requests up to this many bytes do not wait for the budget."""


class ByteBudget:
    """A budget of bytes held at once, granted in request order.

    Args:
        total: the budget; a larger request takes all of it.
    """

    def __init__(self, total: int) -> None:
        self._free, self._total = total, total
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def reserve(self, n_bytes: int) -> AsyncIterator[None]:
        """Wait until the bytes are free and hold them during the block."""
        if n_bytes <= SMALL:
            yield
            return
        n_bytes = min(n_bytes, self._total)
        await self._take(n_bytes)
        try:
            yield
        finally:
            self._give_back(n_bytes)

    async def _take(self, n_bytes: int) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((n_bytes, waiter))
        self._serve()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._give_back(n_bytes)
            raise

    def _give_back(self, n_bytes: int) -> None:
        self._free += n_bytes
        self._serve()

    def _serve(self) -> None:
        while self._waiters:
            n_bytes, waiter = self._waiters[0]
            if waiter.done():  # cancelled
                self._waiters.popleft()
            elif n_bytes <= self._free:
                self._free -= n_bytes
                waiter.set_result(None)
                self._waiters.popleft()
            else:
                return


_EXPIRE_EVERY = 0.1
"""The interval of checks for ended leases, as a share of a lease."""
_MIB = 2**20
Handler = Callable[[Request], Awaitable[Any]]


class EnvironmentServer:
    """Serves environments to clients that have a token.

    Args:
        names: registered ids of the served environments.
        tokens: each token identifies one client, which sees only its own episodes.
        backend: makes the sandboxes; a registered name or a Backend.
        options_allowed: whether a client may give options to the constructor of an environment.
        accepted: called with the address of each connection on which a request had a valid token.
    """

    def __init__(
        self,
        names: Collection[str],
        tokens: Sequence[str],
        limits: ServerLimits = ServerLimits(),  # noqa: B008  frozen
        *,
        backend: Backend | str | None = None,
        options_allowed: bool = False,
        accepted: Callable[[object], None] = lambda address: None,
    ) -> None:
        self._names, self._tokens, self.limits = sorted(names), tokens, limits
        self._backend, self._options_allowed, self._accepted = backend, options_allowed, accepted
        self.episodes = EpisodeTable(self._make, limits)
        self._budgets = [ByteBudget(2 * limits.checkpoint_mib * _MIB) for _ in tokens]
        self._descriptions: dict[str, dict[str, Any]] = {}

    def application(self) -> Starlette:
        """Return the ASGI application. Its shutdown closes every episode and the sandboxes' shared backends."""
        named = "/v1/environments/{namespace}/{name}"
        routes = [
            ("/v1/environments", "GET", self._list),
            (named, "POST", self._describe),
            (f"{named}/episodes", "POST", self._open),
            ("/v1/episodes/{id}/{operation}", "POST", self._operate),
            ("/v1/episodes/{id}", "DELETE", self._close),
            ("/v1/heartbeats", "POST", self._renew),
        ]
        return Starlette(
            routes=[Route(path, self._answering(handler), methods=[method]) for path, method, handler in routes],
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, application: object) -> AsyncIterator[None]:
        expiring = asyncio.create_task(self._expire())
        try:
            yield
        finally:
            expiring.cancel()
            await self.episodes.close_all()
            await registry.close_backends()

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(self.limits.lease_s * _EXPIRE_EVERY)
            await self.episodes.expire()

    def _answering(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a handler: check access, and turn every refusal into a response."""

        async def answer(request: Request) -> Response:
            try:
                self._admit(request)
                return _response(200, await handler(request))
            except ServerRefusal as refused:
                return _refusal(refused)
            except WireError as error:
                return _refusal(ServerRefusal(400, "bad_request", f"The request cannot be read: {error}."))
            except ClientDisconnect:
                return Response(status_code=400)  # the client has gone

        return answer

    def _admit(self, request: Request) -> None:
        """Check token and protocol, and note the owner. Raises: ServerRefusal."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        owner = token_position(given.strip(), self._tokens) if scheme.lower() == "bearer" else None
        if owner is None:
            raise ServerRefusal(401, "wrong_token", "The server does not accept this token.")
        self._accepted(request.scope.get("client"))
        if request.headers.get(PROTOCOL_HEADER) != str(PROTOCOL):
            theirs = request.headers.get(PROTOCOL_HEADER, "none")
            raise ServerRefusal(
                426,
                "protocol",
                (
                    f"The client uses protocol {theirs:.20}, but this server (agentgym {__version__}) uses "
                    f"{PROTOCOL}. Install the same version of agentgym at both ends."
                ),
            )
        request.state.owner = owner

    async def _list(self, request: Request) -> dict[str, Any]:
        return {
            "agentgym": __version__,
            "environments": self._names,
            "episodes": len(self.episodes),
            "waiting": self.episodes.waiting,
            "lease_s": self.limits.lease_s,
        }

    async def _describe(self, request: Request) -> dict[str, Any]:
        arguments = decode(await self._body(request))
        return self._description(self._name(request), self._options(arguments))

    async def _open(self, request: Request) -> dict[str, Any]:
        name, arguments = self._name(request), decode(await self._body(request))
        options = self._options(arguments)
        if arguments.get("digest") != self._description(name, options)["digest"]:
            raise ServerRefusal(
                409,
                "changed",
                f"The tools of {name} on this server differ from those that the client knows. Connect anew.",
            )
        opening = self.episodes.open(request.state.owner, name, options, wait_s=_wait_s(arguments))
        try:
            episode = await _while_connected(request, opening)
        except AgentGymError as error:
            return {"error": error_to_json(error)}
        limits = self.limits
        return {"episode": episode.id, "lease_s": limits.lease_s, "message_bytes": limits.message_mib * _MIB}

    async def _operate(self, request: Request) -> bytes:
        operation = request.path_params["operation"]
        episode = self.episodes.find(request.state.owner, request.path_params["id"])
        most_mib = self.limits.checkpoint_mib if operation == "restore" else self.limits.message_mib
        async with self._budgets[request.state.owner].reserve(_length(request, most_mib * _MIB)):
            arguments = decode(await self._body(request, most_mib))
            reply = await _while_connected(request, self.episodes.run(episode, operation, arguments))
        try:
            return encode(reply)
        except (TypeError, ValueError, RecursionError) as error:
            what = TypeError(f"{operation} returned something that is not JSON data: {error}")
            return encode({**reply, "value": None, "error": error_to_json(what)})

    async def _close(self, request: Request) -> dict[str, Any]:
        episode = self.episodes.find(request.state.owner, request.path_params["id"])
        # shielded: a client's disconnect must not leave the environment half closed
        return {"close_error": await asyncio.shield(asyncio.ensure_future(self.episodes.close(episode)))}

    async def _renew(self, request: Request) -> dict[str, Any]:
        episode_ids = decode(await self._body(request)).get("episodes")
        if not isinstance(episode_ids, list) or not all(isinstance(item, str) for item in episode_ids):
            raise ServerRefusal(400, "bad_request", "`episodes` must be a list of ids.")
        return {"lost": self.episodes.renew(request.state.owner, episode_ids)}

    async def _body(self, request: Request, most_mib: int = 1) -> bytes:
        """Return the body of a request. Raises: ServerRefusal if it is too large or too slow."""
        most, pieces, size = most_mib * _MIB, [], 0
        _length(request, most)
        try:
            async with asyncio.timeout(self.limits.request_s):
                async for piece in request.stream():
                    size += len(piece)
                    if size > most:
                        raise ServerRefusal(
                            413, "too_large", f"The request is too large: this server accepts at most {most_mib} MiB."
                        )
                    pieces.append(piece)
        except TimeoutError as error:
            text = f"The request was not complete after {self.limits.request_s:g} s."
            raise ServerRefusal(408, "too_slow", text) from error
        return b"".join(pieces)

    def _name(self, request: Request) -> str:
        name = f"{request.path_params['namespace']}/{request.path_params['name']}"
        if name not in self._names:
            served = ", ".join(self._names[:8]) + (" ..." if len(self._names) > 8 else "")
            raise ServerRefusal(
                404, "unknown_environment", f"{name:.80} is not an environment of this server. It serves: {served}."
            )
        return name

    def _options(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        options = arguments.get("options") or {}
        if not isinstance(options, dict):
            raise ServerRefusal(400, "bad_request", "`options` must be an object.")
        if options and not self._options_allowed:
            text = "This server sets the options of environments itself: start it with --allow-options to change that."
            raise ServerRefusal(403, "options", text)
        return options

    def _make(self, name: str, **options: Any) -> Any:
        return registry.make(name, backend=self._backend, **options)

    def _description(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        key = json.dumps([name, options], sort_keys=True)
        if key not in self._descriptions:
            try:
                description = description_of(registry.prototype(name, **options))
            except (AgentGymError, TypeError) as error:
                raise ServerRefusal(
                    400, "bad_environment", f"{name} cannot be created on this server: {error}"
                ) from error
            digest = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode()).hexdigest()
            if len(self._descriptions) > 2 * len(self._names) + 64:  # clients may send any number of different options
                self._descriptions.clear()
            self._descriptions[key] = {**description, "digest": digest, "agentgym": __version__}
        return self._descriptions[key]


async def _while_connected(request: Request, work: Awaitable[Any]) -> Any:
    """Return the result of some work; cancel it if the client disconnects. Raises: ClientDisconnect."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_until_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(working, leaving, return_exceptions=True)


async def _until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _wait_s(arguments: Mapping[str, Any]) -> float:
    """Return how many seconds the client will wait for room. Raises: ServerRefusal."""
    wait_s = arguments.get("wait_s", 0.0)
    if not isinstance(wait_s, (int, float)) or isinstance(wait_s, bool) or not wait_s >= 0:
        raise ServerRefusal(400, "bad_request", "`wait_s` must be a number of seconds of at least 0.")
    return float(wait_s)


def _length(request: Request, most: int) -> int:
    """Return a request's content length. Raises: ServerRefusal if it is missing or too large."""
    text = request.headers.get("content-length", "")
    if not text.isdecimal():
        raise ServerRefusal(411, "no_length", "The request must state its length in the header content-length.")
    if int(text) > most:
        raise ServerRefusal(
            413, "too_large", f"The request has {int(text)} bytes, but this server accepts at most {most}."
        )
    return int(text)


def _refusal(refused: ServerRefusal) -> Response:
    return _response(refused.status, {"error": {"kind": refused.kind, "message": str(refused)}})


def _response(status: int, value: Any) -> Response:
    body = value if isinstance(value, bytes) else encode(value)
    return Response(body, status, media_type="application/json")
