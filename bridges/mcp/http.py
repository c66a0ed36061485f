"""Our episodes as MCP servers over streamable HTTP.

POST   /tasks/ID/mcp            for clients with sessions: `initialize` begins an episode of the task, and the
                                header Mcp-Session-Id names it from then on; DELETE ends it
POST   /episodes                begin an episode: {"task": ID}, {"index": N}, or {} for the next task; answers its URL
POST   /episodes/SECRET/mcp     the episode's messages, of either era; any client that knows the URL can play
DELETE /episodes/SECRET         end the episode; answers its outcome
GET    /tasks                   the ids of the tasks
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym import AgentGymError, RolloutConfig, Task, Trajectory, strict_json
from agentgym.interop import mcp
from agentgym.storage import Ledger

from .episode_server import EpisodeServer, episode_label
from .guest_bridge import ENVELOPE, METHOD_NOT_FOUND

MAX_BODY_BYTES = 8 * 2**20
BODY_S = 30.0
SWEEP_S = 5.0
PARSE_ERROR = -32_700
SESSION = "Mcp-Session-Id"
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class HttpBounds:
    """Limits of clients. `episodes`: in progress at once. `idle_s`: seconds of silence that end an episode."""

    episodes: int = 64
    idle_s: float = 900.0


@dataclass(slots=True)
class _Open:
    """An open episode, and the time of its client's last message on the event loop's clock."""

    server: EpisodeServer
    last_used_s: float


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """Who may send requests to a server."""

    host: str = "127.0.0.1"
    """The listening address. On a loopback address the Host header must name a loopback address, which stops a browser
    page from reaching it under the page's own name."""
    tokens: Sequence[str] = ()
    """Each request must send one of these as its bearer token; empty disables the check."""


class McpHttpServer:
    """Offers tasks as MCP servers. Each episode is recorded and judged like any other.

    Args:
        tasks: the offered tasks. config: the config of the episodes.
        ledger: stores the episodes, if given.
        access: who may ask.
        ended: called with the trajectory of each ended episode.
        accepted: called with the address of each connection on which a request was served.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        config: RolloutConfig,
        ledger: Ledger | None = None,
        *,
        access: HttpAccess = HttpAccess(),
        bounds: HttpBounds = HttpBounds(),
        ended: Callable[[Trajectory], None] = lambda trajectory: None,
        accepted: Callable[[object], None] = lambda address: None,
    ) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._config, self._ledger, self._bounds = config, ledger, bounds
        self._ended, self._accepted = ended, accepted
        self._is_local, self._tokens = mcp.is_loopback(access.host), access.tokens
        self._label = episode_label()
        self._open: dict[str, _Open] = {}
        self._begun = self._beginning = 0

    def application(self) -> Starlette:
        """Return the ASGI application."""
        routes = [
            Route("/tasks", self._answering(self._list_tasks), methods=["GET"]),
            Route("/tasks/{task:path}/mcp", self._answering(self._serve_task), methods=["POST", "DELETE"]),
            Route("/episodes", self._answering(self._begin_by_request), methods=["POST"]),
            Route("/episodes/{secret}/mcp", self._answering(self._serve_episode), methods=["POST", "DELETE"]),
            Route("/episodes/{secret}", self._answering(self._end_by_request), methods=["DELETE"]),
        ]
        return Starlette(routes=routes, lifespan=self._while_serving)

    @asynccontextmanager
    async def _while_serving(self, _application: Starlette) -> AsyncIterator[None]:
        """End idle episodes while the server runs, and all episodes at its end."""

        async def sweep() -> None:
            while True:
                await asyncio.sleep(min(SWEEP_S, self._bounds.idle_s))
                now = asyncio.get_running_loop().time()
                for secret, episode in [*self._open.items()]:
                    if now - episode.last_used_s > self._bounds.idle_s:
                        await self._end(secret)

        sweeping = asyncio.create_task(sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await asyncio.gather(*(self._end(secret) for secret in [*self._open]))

    def _answering(self, handler: Handler) -> Handler:
        """Wrap a handler: check access, and turn every refusal into a response."""

        async def answer(request: Request) -> Response:
            try:
                self._check_caller(request)
                self._accepted(request.scope.get("client"))
                return await handler(request)
            except mcp.ServerRefusal as refused:
                return mcp.AsciiJSONResponse({"error": {"code": refused.kind, "message": str(refused)}}, refused.status)
            except ClientDisconnect:
                return Response(status_code=400)  # the client has gone

        return answer

    def _check_caller(self, request: Request) -> None:
        """Raise ServerRefusal for a missing or wrong token, or a page of another origin."""
        origin = request.headers.get("origin")
        if self._is_local:
            named = [request.headers.get("host", ""), *([urlsplit(origin).netloc] if origin else ())]
            if not all(mcp.is_loopback(urlsplit(f"//{name}").hostname or "") for name in named):
                raise mcp.ServerRefusal(403, "other_origin", "This server answers only requests from its own machine.")
        elif origin:
            raise mcp.ServerRefusal(403, "other_origin", "This server answers no requests from web pages.")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self._tokens and (scheme.lower() != "bearer" or mcp.token_position(token.strip(), self._tokens) is None):
            raise mcp.ServerRefusal(
                401,
                "unknown_token",
                "The request needs a token of this server. Send it as: Authorization: Bearer TOKEN.",
            )

    async def _list_tasks(self, _request: Request) -> Response:
        return mcp.AsciiJSONResponse({"tasks": [*self._tasks]})

    async def _serve_task(self, request: Request) -> Response:
        """Answer a message of a client with sessions."""
        task, secret = self._task(request.path_params["task"]), request.headers.get(SESSION)
        if secret is not None:
            return await self._serve(request, secret, task)
        if request.method == "DELETE":
            raise mcp.ServerRefusal(400, "no_session", f"Name the session to end in the header {SESSION}.")
        message = await _message(request)
        if message.get("method") != "initialize":
            params = message.get("params")
            meta = params.get("_meta") if isinstance(params, Mapping) else None
            if isinstance(meta, Mapping) and f"{ENVELOPE}protocolVersion" in meta:
                words = (
                    "A task has episodes. POST /episodes begins one, and answers a URL for clients without sessions."
                )
                return _error(message.get("id"), METHOD_NOT_FOUND, words, 404)
            raise mcp.ServerRefusal(400, "no_session", f"Begin with `initialize`, then send the header {SESSION}.")
        secret = await self._begin(task)
        reply = await self._open[secret].server.answer(message)
        if reply is None:  # the message was a notification named initialize
            await self._end(secret)
            return Response(status_code=202)
        return mcp.AsciiJSONResponse(reply, headers={SESSION: secret})

    async def _begin_by_request(self, request: Request) -> Response:
        body = await _message(request)
        if unknown := body.keys() - {"task", "index"}:
            raise _invalid(f"The key {sorted(unknown)[0]!r:.60} is not known. Give only task and index.")
        ids = [*self._tasks]
        index = body.get("index", self._begun % len(ids))
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(ids):
            raise _invalid(f"index = {index!r:.60} is not valid: give a number from 0 to {len(ids) - 1}.")
        task = self._task(body.get("task", ids[index]))
        secret = await self._begin(task)
        return mcp.AsciiJSONResponse({"task": task.id, "url": f"{request.base_url}episodes/{secret}/mcp"}, 201)

    async def _serve_episode(self, request: Request) -> Response:
        return await self._serve(request, request.path_params["secret"])

    async def _end_by_request(self, request: Request) -> Response:
        secret = request.path_params["secret"]
        self._find(secret)
        trajectory = await self._end(secret)
        stop = trajectory.stop_reason.value if trajectory and trajectory.stop_reason else None
        return mcp.AsciiJSONResponse({"stop_reason": stop, "outcome": trajectory.outcome if trajectory else {}})

    async def _serve(self, request: Request, secret: str, task: Task | None = None) -> Response:
        """Answer a message of an episode, or end it.

        Raises: ServerRefusal if there is no such episode, or it plays another task.
        """
        episode = self._find(secret)
        if task is not None and episode.server.task is not task:
            raise _unknown_episode()
        if request.method == "DELETE":
            await self._end(secret)
            return Response(status_code=204)
        reply = await episode.server.answer(await _message(request))
        episode.last_used_s = asyncio.get_running_loop().time()
        return Response(status_code=202) if reply is None else mcp.AsciiJSONResponse(reply)

    def _task(self, task_id: Any) -> Task:
        task = self._tasks.get(task_id) if isinstance(task_id, str) else None
        if task is None:
            raise mcp.ServerRefusal(404, "unknown_task", f"There is no task {task_id!r:.80}. GET /tasks lists them.")
        return task

    def _find(self, secret: str) -> _Open:
        if (episode := self._open.get(secret)) is None:
            raise _unknown_episode()
        episode.last_used_s = asyncio.get_running_loop().time()
        return episode

    async def _begin(self, task: Task) -> str:
        """Begin an episode. Returns: its secret. Raises: ServerRefusal if there is no room or beginning fails."""
        over = [secret for secret, episode in self._open.items() if episode.server.is_over]
        if len(over) >= self._bounds.episodes:  # no client has fetched the outcomes of these episodes
            await self._end(over[0])
        in_progress = sum(not episode.server.is_over for episode in self._open.values())
        if in_progress + self._beginning >= self._bounds.episodes:
            words = f"All {self._bounds.episodes} episodes of this server are in use: end one, or wait."
            raise mcp.ServerRefusal(503, "full", words)
        self._begun, self._beginning = self._begun + 1, self._beginning + 1
        try:
            server = EpisodeServer(task, self._config, self._ledger, label=f"{self._label}-{self._begun}")
            await server.begin()
        except AgentGymError as error:
            raise mcp.ServerRefusal(503, "not_begun", str(error)) from error
        finally:
            self._beginning -= 1
        secret = secrets.token_urlsafe(24)
        self._open[secret] = _Open(server, asyncio.get_running_loop().time())
        return secret

    async def _end(self, secret: str) -> Trajectory | None:
        """End an open episode. Returns: its trajectory; None, after printing the error, if it cannot be recorded."""
        if (episode := self._open.pop(secret, None)) is None:
            return None
        try:
            trajectory = await episode.server.close()
        except AgentGymError as error:
            print(f"An episode could not be ended: {error}", file=sys.stderr)
            return None
        self._ended(trajectory)
        return trajectory


async def _message(request: Request) -> dict[str, Any]:
    """Return the JSON object in a request's body.

    Raises: ServerRefusal if the body is too large, too slow or not an object.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise mcp.ServerRefusal(413, "too_large", f"A message must have at most {MAX_BODY_BYTES} bytes.")
    except TimeoutError:
        raise mcp.ServerRefusal(408, "too_slow", f"The message did not arrive within {BODY_S:g} s.") from None
    try:
        message = strict_json.loads(body or b"{}", allow_surrogates=True)
    except ValueError as error:
        raise _invalid(f"The message is not JSON: {error!s:.200}") from error
    if not isinstance(message, dict):
        raise _invalid("A message must be one JSON object. Batches are not supported.")
    return message


def _error(number: Any, code: int, words: str, status: int) -> Response:
    return mcp.AsciiJSONResponse({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": words}}, status)


def _invalid(words: str) -> mcp.ServerRefusal:
    return mcp.ServerRefusal(400, "invalid_request", words)


def _unknown_episode() -> mcp.ServerRefusal:
    return mcp.ServerRefusal(404, "unknown_episode", "There is no such episode. It may have ended: begin a new one.")
