"""An OpenEnv server for our tasks: a bounded number of sessions over WebSockets or MCP."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from agentgym import AgentGymError, BackendUser, __version__, strict_json

from .session import ACTION_TYPES, ClientSession, OfferedTasks
from .wire import EXTENSION, MAX_FRAME_BYTES, ErrorCode, FrameRefused

PROTOCOL_VERSION = "1.0.0"
"""The interface version that OpenEnv's own servers report."""
_HEARTBEAT_S = 20.0  # a client that answers no ping for half this time is gone
_SWEEP_S = 5.0
_PARSE_ERROR, _INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS, _SERVER_ERROR = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32000,
)

ACTION_SCHEMA: Mapping[str, Any] = {
    "title": "AgentgymAction",
    "type": "object",
    EXTENSION: __version__,
    "properties": {
        "type": {"enum": list(ACTION_TYPES), "default": "call_tool"},
        "tool_name": {"type": "string"},
        "arguments": {"type": "object"},
        "content": {"type": "string", "description": "What the agent says, of the type `message`."},
        "metadata": {"type": "object"},
    },
}
_OBSERVATION_SCHEMA: Mapping[str, Any] = {
    "title": "AgentgymObservation",
    "type": "object",
    "properties": {
        "tool_name": {"type": "string"},
        "result": {"type": "object"},
        "error": {"type": ["object", "null"]},
        "messages": {"type": "array", "items": {"type": "object"}},
        "metadata": {"type": "object"},
    },
}
_STATE_SCHEMA: Mapping[str, Any] = {
    "title": "State",
    "type": "object",
    "properties": {
        "episode_id": {"type": ["string", "null"]},
        "step_count": {"type": "integer"},
        "task_id": {"type": ["string", "null"]},
    },
}


@dataclass(frozen=True, slots=True)
class ServerBounds:
    """Limits for clients.

    Attributes:
        sessions: most open sessions; a further one is refused.
        idle_s: seconds after which an idle session is ended.
    """

    sessions: int = 64
    idle_s: float = 900.0


class OpenEnvServer:
    """Serves our tasks to any OpenEnv client.

    Args:
        tokens: each request must carry one of them, as `Authorization: Bearer`; without tokens, none is required.
    """

    def __init__(
        self,
        offered: OfferedTasks,
        bounds: ServerBounds = ServerBounds(),
        tokens: Sequence[str] = (),
    ) -> None:
        self._offered, self._bounds, self._tokens = offered, bounds, tokens
        self._sessions: dict[str, ClientSession] = {}
        self._numbers = count()

    def application(self) -> web.Application:
        """Return the application with its routes."""
        application = web.Application(middlewares=[self._guard()], client_max_size=MAX_FRAME_BYTES)
        name = self._offered.name
        documents: dict[str, Any] = {
            "/health": {"status": "healthy"},
            "/metadata": {
                "name": name,
                "description": f"Tasks of {name}:{self._offered.split}, served by agentgym.",
                "version": __version__,
            },
            "/schema": {"action": ACTION_SCHEMA, "observation": _OBSERVATION_SCHEMA, "state": _STATE_SCHEMA},
            "/list_environments": [name],
            f"/{name}/splits": [{"name": self._offered.split, "type": self._offered.split}],
        }
        paths = [*documents, "/mcp", *(f"/{name}/{request}" for request in ("tasks", "num_tasks", "task"))]
        documents["/openapi.json"] = {
            "openapi": "3.1.0",
            "info": {"title": name, "version": PROTOCOL_VERSION},
            "paths": {path: {} for path in paths},
        }
        for path, document in documents.items():
            application.router.add_get(path, _answers_with(web.json_response, document))
        application.router.add_get("/ws", self._serve_socket)
        application.router.add_post("/mcp", self._serve_mcp)
        application.router.add_post(f"/{name}/{{request:tasks|num_tasks|task}}", self._serve_tasks)
        application.cleanup_ctx.append(self._sweep)
        return application

    def _guard(self) -> Any:
        """Return a middleware that refuses requests from web pages and requests without a valid token."""

        @web.middleware
        async def guard(request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> Any:
            if "Origin" in request.headers:  # otherwise any open web page could play, and read the answers
                return web.json_response({"detail": "Pages of a browser are not served."}, status=403)
            given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
            if self._tokens and not any(hmac.compare_digest(given, token.encode()) for token in self._tokens):
                return web.json_response({"detail": "Send the token as `Authorization: Bearer TOKEN`."}, status=401)
            return await handler(request)

        return guard

    async def _serve_socket(self, request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES, heartbeat=_HEARTBEAT_S)
        await connection.prepare(request)
        joined = request.query.get("session_id")
        try:
            session_id, session = self._attach(joined) if joined else self._open()
        except FrameRefused as refused:
            await connection.send_json(refused.to_json())
            await connection.close()
            return connection
        session.is_attached = True
        try:
            while True:
                message = await connection.receive(timeout=self._bounds.idle_s)
                if message.type is not WSMsgType.TEXT:
                    break
                if (reply := await self._answer(session, message.data)) is None:
                    break
                await connection.send_json(reply)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            session.is_attached = False
            session.last_used_s = asyncio.get_running_loop().time()
            if not joined:
                await self._close(session_id)
            await connection.close()
        return connection

    async def _answer(self, session: ClientSession, text: str) -> dict[str, Any] | None:
        """Return the answer to a frame; None for the frame that ends the session."""
        try:
            frame = _object(text)
            kind, data = frame.get("type"), frame.get("data", {})
            if kind == "close":
                return None
            if kind == "state":
                return {"type": "state", "data": session.state()}
            if kind not in ("reset", "step", "mcp"):
                raise FrameRefused(ErrorCode.UNKNOWN_TYPE, f"Unknown message type: {kind!s:.80}")
            if not isinstance(data, Mapping):
                raise FrameRefused(ErrorCode.VALIDATION_ERROR, "`data` of a frame must be an object.")
            if kind == "mcp":
                return {"type": "mcp", "data": await self._answer_mcp(data, session)}
            observed = await (session.reset(data) if kind == "reset" else session.step(data))
            return {"type": "observation", "data": observed.to_json()}
        except FrameRefused as refused:
            return refused.to_json()
        except AgentGymError as error:  # not the client's fault; the session continues
            return FrameRefused(ErrorCode.SESSION_ERROR, str(error)).to_json()

    async def _serve_mcp(self, request: web.Request) -> web.Response:
        try:
            message = _object(await request.text())
        except FrameRefused as refused:
            return web.json_response(_error(None, _PARSE_ERROR, str(refused)))
        return web.json_response(await self._answer_mcp(message, None))

    async def _answer_mcp(self, message: Mapping[str, Any], session: ClientSession | None) -> dict[str, Any]:
        """Return the reply to a JSON-RPC request, in the socket's session or in the session that it names."""
        number, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if not isinstance(method, str) or not isinstance(params, Mapping):
            return _error(number, _INVALID_REQUEST, "A request has `method`, text, and `params`, an object.")
        session_id = params.get("session_id")
        try:
            if method == "openenv/session/create":
                return _result(number, {"session_id": self._open()[0]})
            if method == "openenv/session/close":
                self._find(session_id)
                await self._close(str(session_id))
                return _result(number, {"session_id": session_id, "closed": True})
            if session is None and session_id is not None:
                session = self._find(session_id)
            if method == "tools/list":
                tools = (session or ClientSession(self._offered, self._numbers)).tools()
                return _result(number, {"tools": [{**tool, "inputSchema": tool["input_schema"]} for tool in tools]})
            if method != "tools/call":
                return _error(number, _METHOD_NOT_FOUND, f"There is no method {method:.100}.")
            if session is None:
                return _error(number, _INVALID_PARAMS, "Name a session: `openenv/session/create` opens one.")
            return _result(number, await session.call(params.get("name", ""), params.get("arguments", {})))
        except FrameRefused as refused:
            return _error(number, _SERVER_ERROR, str(refused))

    async def _serve_tasks(self, request: web.Request) -> web.Response:
        """Return the ids of the tasks, which a reset accepts."""
        offered = self._offered
        try:
            body = _object(await request.text())
            if body.get("split") != offered.split:
                raise FrameRefused(ErrorCode.VALIDATION_ERROR, f"This server serves only the split {offered.split!r}.")
            if (request_name := request.match_info["request"]) == "num_tasks":
                reply: dict[str, Any] = {"num_tasks": len(offered.tasks)}
            elif request_name == "tasks":
                reply = {"tasks": [_task(task.id, i) for i, task in enumerate(offered.tasks)], "env_name": offered.name}
            else:
                reply = {"task": _task(offered.choose(None, body.get("index", 0), 0).id, body.get("index", 0))}
        except FrameRefused as refused:
            return web.json_response({"detail": str(refused)}, status=400)
        return web.json_response(reply)

    def _open(self) -> tuple[str, ClientSession]:
        """Open a session. Raises: FrameRefused if the server is full."""
        if len(self._sessions) >= self._bounds.sessions:
            raise FrameRefused(
                ErrorCode.CAPACITY_REACHED, f"All {self._bounds.sessions} sessions of this server are in use."
            )
        session_id, session = secrets.token_urlsafe(18), ClientSession(self._offered, self._numbers)
        self._sessions[session_id] = session
        return session_id, session

    def _attach(self, session_id: str) -> tuple[str, ClientSession]:
        session = self._find(session_id)
        if session.is_attached:
            raise FrameRefused(ErrorCode.SESSION_ERROR, "The session already has a connection.")
        return session_id, session

    def _find(self, session_id: Any) -> ClientSession:
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if session is None:
            raise FrameRefused(ErrorCode.SESSION_ERROR, f"There is no session {session_id!r:.60}.")
        session.last_used_s = asyncio.get_running_loop().time()
        return session

    async def _close(self, session_id: str) -> None:
        if (session := self._sessions.pop(session_id, None)) is None:
            return
        try:
            await session.close()
        except AgentGymError as error:  # no client is left to tell
            print(f"A session could not be ended: {error}", file=sys.stderr)

    async def _sweep(self, _application: web.Application) -> AsyncIterator[None]:
        """End idle sessions without a connection while the server runs, and all sessions at its end."""

        async def sweep() -> None:
            while True:
                await asyncio.sleep(min(_SWEEP_S, self._bounds.idle_s))
                now = asyncio.get_running_loop().time()
                for session_id, session in [*self._sessions.items()]:
                    if not session.is_attached and now - session.last_used_s > self._bounds.idle_s:
                        await self._close(session_id)

        sweeping, backends = asyncio.create_task(sweep()), BackendUser()
        yield
        sweeping.cancel()
        await asyncio.gather(*(self._close(session_id) for session_id in [*self._sessions]))
        await backends.close()


def serve_openenv(server: OpenEnvServer, listening: socket.socket) -> None:
    """Serve until the process is interrupted or terminated."""
    application = server.application()
    web.run_app(application, sock=listening, print=None, access_log=None, shutdown_timeout=3.0)


def write_manifest(folder: Path, name: str, port: int) -> Path:
    """Write `openenv.yaml`, which tells OpenEnv's tools about the served environment. Returns: its path."""
    lines = [
        "spec_version: 1",
        f"name: {name}",
        f"version: {__version__}",
        "type: space",
        f"port: {port}",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "openenv.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _answers_with(json_response: Callable[[Any], Any], document: Any) -> Callable[[web.Request], Awaitable[Any]]:
    async def answer(_request: web.Request) -> Any:
        return json_response(document)

    return answer


def _object(text: str) -> dict[str, Any]:
    """Parse a JSON object. Raises: FrameRefused."""
    try:
        message = strict_json.loads(text, allow_surrogates=True)
    except ValueError as error:
        raise FrameRefused(ErrorCode.INVALID_JSON, f"Invalid JSON: {error}") from error
    if not isinstance(message, dict):
        raise FrameRefused(ErrorCode.VALIDATION_ERROR, "A message must be a JSON object.")
    return message


def _task(task_id: str, index: int) -> dict[str, Any]:
    return {"id": task_id, "task_id": task_id, "index": index}


def _result(number: Any, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _error(number: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
