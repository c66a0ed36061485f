"""The application behind the gateway: access checks, request parsing, and refusals as responses.

POST   /v1/chat/completions, /v1/responses, /v1/messages   the policy's next message
POST   /v1/models/NAME:generateContent, :streamGenerateContent       the same for Google's clients, also under /v1beta
POST   /v1/messages/count_tokens, /v1/models/NAME:countTokens        the length of a prompt
GET    /v1/models, /v1/models/NAME, /v1beta/models, /v1beta/models/NAME   the policy's name
POST   /mcp                                                the environment's tools, over MCP
POST   /episode/tools/NAME                                 call one of these tools, with its arguments as JSON
GET    /episode                                            the task and the tools
POST   /episode/end                                        the program is done
POST   /episodes                                           take the next episode, with the server's own token

The bearer token, or the header x-api-key or x-goog-api-key, names the episode.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from agentgym import strict_json
from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.errors import PolicyError
from agentgym.interop.ascii_json import AsciiJSONResponse
from agentgym.interop.mcp.content import content_to_mcp
from agentgym.interop.mcp.tool_server import ToolServer
from agentgym.messages import Result, StopReason
from agentgym.policy.contract import Renderer
from agentgym.rollout.conversation import Conversation
from agentgym.tools.arguments import replace_lone_surrogates

from .anthropic_messages import AnthropicMessages
from .api import Api
from .chat import Answer, Chat, invalid, object_of
from .chat_completions import ChatCompletions, chat_content
from .generate_content import GenerateContent, target_of
from .program_loop import ProgramLoop
from .responses import Responses
from .sessions import Sessions

MAX_BODY_MIB = 16
BODY_S = 30.0
"""How long a client may take to send its request."""
CLAIM_S = 30.0
"""How long a client may wait for an episode before it asks again."""
QUIET_S = 1.0
"""How long a stream waits for the answer before it begins."""
PAUSE_S = 5.0
"""The time between signs of life of a stream that waits for the answer. Our choice: clients wait for a minute."""
_USUAL: Api = ChatCompletions()
_ANTHROPIC: Api = AnthropicMessages()
_GOOGLE: Api = GenerateContent()
_APIS: tuple[Api, ...] = (_USUAL, Responses(), _ANTHROPIC)
_VERSIONS = ("v1", "v1beta")
Handler = Callable[[Request], Awaitable[Response]]


def application(sessions: Sessions, accepted: Callable[[object], None] = lambda address: None) -> Starlette:
    """Return the ASGI application.

    Args:
        accepted: called with the address of each connection on which a request had a valid token.
    """
    server = _Gateway(sessions, accepted)
    routes = [
        *(Route(api.path, server.completing(api), methods=["POST"]) for api in _APIS),
        Route(_GOOGLE.path, server.answering(server.google, _GOOGLE), methods=["POST"]),
        Route("/v1beta/models/{target:path}", server.answering(server.google, _GOOGLE), methods=["POST"]),
        Route(f"{_ANTHROPIC.path}/count_tokens", server.answering(server.count, _ANTHROPIC), methods=["POST"]),
        Route("/v1beta/models", server.answering(server.google_models, _GOOGLE), methods=["GET"]),
        Route("/v1beta/models/{name:path}", server.answering(server.google_model, _GOOGLE), methods=["GET"]),
        Route("/v1/models", server.answering(server.models), methods=["GET"]),
        Route("/v1/models/{name:path}", server.answering(server.model), methods=["GET"]),
        *(
            Route(f"/{version}/{{path:path}}", server.answering(server.unknown), methods=["POST"])
            for version in _VERSIONS
        ),
        Route("/mcp", server.answering(server.mcp), methods=["POST"]),
        Route("/episode", server.answering(server.episode), methods=["GET"]),
        Route("/episode/tools/{name:path}", server.answering(server.call), methods=["POST"]),
        Route("/episode/end", server.answering(server.end), methods=["POST"]),
        Route("/episodes", server.answering(server.claim), methods=["POST"]),
    ]
    return Starlette(routes=routes)


class _Gateway:
    def __init__(self, sessions: Sessions, accepted: Callable[[object], None]) -> None:
        self._sessions, self._accepted = sessions, accepted

    def answering(self, handler: Handler, api: Api = _USUAL) -> Handler:
        """Wrap a handler: turn every refusal into a response."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except ServerRefusal as refused:
                if (loop := self._sessions.of(_token(request))) is not None:
                    loop.note_refused(refused)
                return AsciiJSONResponse(api.error(refused), refused.status)
            except ClientDisconnect:
                return Response(status_code=400)  # the client has gone

        return answer

    def completing(self, api: Api) -> Handler:
        """Return a handler that answers with the next message in an API's format."""

        async def complete(request: Request) -> Response:
            loop, chat = await self._chat(request, api)
            return await self._answer(loop, chat, api)

        return self.answering(complete, api)

    async def google(self, request: Request) -> Response:
        """Answer Google's clients, whose path names the model and the method."""
        model, method = target_of(request.path_params["target"])
        if method == "countTokens":
            loop, body = self._loop(request), _object(await _json(request))
            chat = _GOOGLE.read(object_of(body.get("generateContentRequest", body), "generateContentRequest"))
            return AsciiJSONResponse({"totalTokens": _prompt_tokens(chat, loop.policy.renderer)})
        loop, chat = await self._chat(request, _GOOGLE)
        as_events = request.query_params.get("alt") == "sse"
        if method == "streamGenerateContent" and not as_events:
            return AsciiJSONResponse([_GOOGLE.write(await loop.complete(chat), model)])
        return await self._answer(loop, replace(chat, model=model, stream=as_events), _GOOGLE)

    async def _chat(self, request: Request, api: Api) -> tuple[ProgramLoop, Chat]:
        """Return the episode of a request for a message, and the request. Raises: ServerRefusal."""
        loop = self._loop(request)
        retries = request.headers.get("x-stainless-retry-count", "0")
        chat = api.read(_object(await _json(request)), loop.answered)
        return loop, replace(chat, is_retry=retries not in ("0", ""))

    async def _answer(self, loop: ProgramLoop, chat: Chat, api: Api) -> Response:
        """Return the policy's next message in an API's format. Raises: ServerRefusal."""
        model = chat.model or loop.policy.name
        if not chat.stream:
            return AsciiJSONResponse(api.write(await loop.complete(chat), model))
        answering = asyncio.ensure_future(loop.complete(chat))
        answering.add_done_callback(lambda done: done.cancelled() or done.exception())  # mark as retrieved
        await asyncio.wait({answering}, timeout=QUIET_S)  # soon refused requests get their status
        if answering.done() and (error := answering.exception()) is not None:
            raise error
        return StreamingResponse(_events(loop, answering, chat, api, model), media_type="text/event-stream")

    async def count(self, request: Request) -> Response:
        """Answer with the number of tokens of a prompt, in Anthropic's format."""
        renderer = self._loop(request).policy.renderer
        chat = _ANTHROPIC.read(_object(await _json(request)))
        return AsciiJSONResponse({"input_tokens": _prompt_tokens(chat, renderer)})

    async def models(self, request: Request) -> Response:
        return AsciiJSONResponse({"object": "list", "data": [_model(self._loop(request).policy.name)]})

    async def model(self, request: Request) -> Response:
        """Describe a model by any name: every name is the policy."""
        self._loop(request)
        return AsciiJSONResponse(_model(request.path_params["name"]))

    async def google_models(self, request: Request) -> Response:
        return AsciiJSONResponse({"models": [_google_model(self._loop(request).policy.name)]})

    async def google_model(self, request: Request) -> Response:
        """Describe a model by any name, in Google's format."""
        self._loop(request)
        return AsciiJSONResponse(_google_model(request.path_params["name"]))

    async def unknown(self, request: Request) -> Response:
        """Refuse a request to a part of the APIs that the gateway does not have, so that the episode knows of it."""
        self._loop(request)
        known = ", ".join(api.path for api in _APIS)
        raise ServerRefusal(404, "not_found", f"POST {request.url.path:.100} is not supported. Use one of {known}.")

    async def mcp(self, request: Request) -> Response:
        loop = self._loop(request)
        reply = await EpisodeTools(loop).answer(object_of(await _json(request), "The message"))
        return Response(status_code=202) if reply is None else AsciiJSONResponse(reply)

    async def episode(self, request: Request) -> Response:
        return AsciiJSONResponse(described(self._loop(request)))

    async def call(self, request: Request) -> Response:
        loop = self._loop(request)
        arguments = dict(object_of(await _json(request), "The arguments"))
        result = await loop.call(request.path_params["name"], arguments)
        data = {"text": result.message().text, "content": content_to_mcp(result.content)}
        return AsciiJSONResponse({**data, "status": result.status, "final": result.final})

    async def end(self, request: Request) -> Response:
        self._loop(request).end(StopReason.ANSWERED)
        return AsciiJSONResponse({})

    async def claim(self, request: Request) -> Response:
        """Hand out the next episode that no program plays. Status 204 means that there is none yet: ask again."""
        if not self._sessions.is_servers(_token(request)):
            raise _unknown_token()
        self._accepted(request.scope.get("client"))
        await _json(request)  # what follows the body tells whether the client has gone
        try:
            async with asyncio.timeout(CLAIM_S):
                loop, token = await self._sessions.claimed()
        except TimeoutError:
            return Response(status_code=204)
        if await request.is_disconnected():
            self._sessions.offer(loop, token)
            raise ClientDisconnect
        return AsciiJSONResponse({"token": token, **described(loop)})

    def _loop(self, request: Request) -> ProgramLoop:
        """Return the episode that a request is about. Raises: ServerRefusal."""
        loop = self._sessions.of(_token(request))
        if loop is None:
            raise _unknown_token()
        self._accepted(request.scope.get("client"))
        return loop


class EpisodeTools(ToolServer):
    """The tools of an episode over MCP."""

    def __init__(self, loop: ProgramLoop) -> None:
        self._loop = loop

    def instructions(self) -> str:
        """Return the instructions for clients on using the tools."""
        return ""  # the program already has the task, and a second copy would be read twice

    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the current tools."""
        return [schema["function"] for schema in self._loop.tool_schemas]

    async def run(self, name: str, arguments: dict[str, Any]) -> Result:
        """Run a tool."""
        return await self._loop.call(name, arguments)


def _prompt_tokens(chat: Chat, renderer: Renderer | None) -> int:
    """Return the tokens of a request's prompt; without a renderer, a quarter of its bytes. Raises: ServerRefusal."""
    if renderer is None:
        texts = [message.written for message in chat.messages] + [json.dumps(tool) for tool in chat.tools]
        return sum(len(text.encode()) for text in texts) // 4
    try:
        return len(Conversation(chat.messages, chat.tools, renderer).prompt_ids)
    except PolicyError as error:
        raise invalid(f"The policy cannot read these messages: {error}") from error


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentgym"}


def _google_model(name: str) -> dict[str, Any]:
    methods = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def _object(body: Any) -> Mapping[str, Any]:
    """Return the body of a request for a message. Raises: ServerRefusal if it is not an object."""
    # programs may cut a text inside a character, and policies cannot read half a character
    return object_of(replace_lone_surrogates(body), "The request")


def described(loop: ProgramLoop) -> dict[str, Any]:
    """Return the description of an episode for its program."""
    return {
        "task": loop.trajectory.task.id,
        "messages": [{"role": message.role, "content": chat_content(message)} for message in loop.opening],
        "tools": list(loop.tool_schemas),
    }


async def _json(request: Request) -> Any:
    """Return the body of a request. Raises: ServerRefusal if it is too large, too slow or not JSON."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_MIB * 2**20:
                    raise ServerRefusal(413, "request_too_large", f"A request must have at most {MAX_BODY_MIB} MiB.")
    except TimeoutError:
        raise ServerRefusal(408, "timeout_error", f"The request did not arrive within {BODY_S:g} s.") from None
    try:
        return strict_json.loads(body or b"{}", allow_surrogates=True)
    except ValueError as error:
        raise invalid(f"The request is not JSON: {error!s:.200}") from error


def _token(request: Request) -> str:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    return request.headers.get("x-api-key") or request.headers.get("x-goog-api-key", "")


def _unknown_token() -> ServerRefusal:
    return ServerRefusal(401, "authentication_error", "No open episode has this token. Its episode may have ended.")


async def _events(
    loop: ProgramLoop, answering: asyncio.Future[Answer], chat: Chat, api: Api, model: str
) -> AsyncIterator[bytes]:
    """Yield the events of an answer; until there is one, what keeps the connection alive."""
    while not answering.done():
        yield api.keep_alive.encode()
        await asyncio.wait({answering}, timeout=PAUSE_S)
    try:
        for event in api.events(answering.result(), model, with_usage=chat.stream_usage):
            yield event.encode()
    except ServerRefusal as refused:
        loop.note_refused(refused)
        yield api.error_event(refused).encode()
