"""A client's session with an OpenEnv server: one WebSocket, one request after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

import aiohttp

from agentgym import EnvironmentServerError, ServerUnreachable, strict_json

from .wire import MAX_FRAME_BYTES, ErrorCode, FrameRefused, Observed


class OpenEnvConnection:
    """A session that a server keeps for us.

    Attributes:
        action_schema: JSON Schema of the environment's actions.
    """

    def __init__(self, url: str, client: aiohttp.ClientSession, request_s: float) -> None:
        self.url = url
        self._client, self._request_s = client, request_s
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._next_frame: asyncio.Future[aiohttp.WSMessage] | None = None
        self._one_request = asyncio.Lock()
        self.action_schema: Mapping[str, Any] = {}

    @classmethod
    async def open(cls, url: str, headers: Mapping[str, str], request_s: float) -> Self:
        """Connect to a server.

        Args:
            url: `http://HOST:PORT`, with a path if it has one.
            headers: the headers of each request, such as a token.
            request_s: how long a request may take.
        Raises: ServerUnreachable; EnvironmentServerError if the URL is not an OpenEnv server.
        """
        client = aiohttp.ClientSession(headers=dict(headers), timeout=aiohttp.ClientTimeout(total=request_s))
        connection = cls(url.rstrip("/"), client, request_s)
        try:
            async with client.get(f"{connection.url}/schema", allow_redirects=False) as answer:
                text = bytearray()
                async for chunk in answer.content.iter_any():
                    text += chunk
                    if len(text) > MAX_FRAME_BYTES:
                        raise ValueError(f"{connection.url}/schema is longer than {MAX_FRAME_BYTES} bytes")
                if answer.status != 200:
                    raise EnvironmentServerError(
                        f"{connection.url}/schema answered with status {answer.status}: "
                        f"{text.decode(errors='replace'):.200}"
                    )
                schema = strict_json.loads(text, allow_surrogates=True)
            if not isinstance(schema, dict) or not isinstance(schema.get("action"), dict):
                raise ValueError("its schema describes no actions")
            connection.action_schema = schema["action"]
            connection._socket = await client.ws_connect(f"{connection.url}/ws", max_msg_size=MAX_FRAME_BYTES)
            connection._listen(connection._socket)
        except ValueError as error:
            await connection.close()
            raise EnvironmentServerError(f"{connection.url} is not an OpenEnv server: {error}.") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await connection.close()
            raise ServerUnreachable(f"The OpenEnv server at {connection.url} cannot be reached: {error!r}.") from error
        except BaseException:
            await connection.close()
            raise
        return connection

    async def ask(self, kind: str, data: Mapping[str, Any]) -> Observed:
        """Return the answer to a `reset` or a `step`. If a request is cancelled, the next waits for its answer first.

        Raises: FrameRefused if the server rejects the request; ServerUnreachable if the server is gone or silent;
            EnvironmentServerError for an invalid answer, a full server or a failed one.
        """
        exchange = asyncio.create_task(self._exchange({"type": kind, "data": dict(data)}))
        exchange.add_done_callback(lambda done: done.cancelled() or done.exception())  # mark errors as seen
        frame = await asyncio.shield(exchange)
        answer = frame.get("data")
        try:
            if frame.get("type") == "error" and isinstance(answer, Mapping):
                raise _refusal(answer, self.url)
            if frame.get("type") != "observation":
                raise ValueError(f"it answered with a frame of type {frame.get('type')!r:.80}")
            return Observed.parse(answer)
        except (ValueError, OverflowError) as error:
            raise EnvironmentServerError(
                f"{self.url} answered {kind!r} in a way that cannot be read: {error}."
            ) from error

    def _listen(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Await the next frame even without a request: a server ends a session whose client answers no pings."""
        self._next_frame = asyncio.create_task(socket.receive())

    async def _exchange(self, message: Mapping[str, Any]) -> dict[str, Any]:
        async with self._one_request:
            reply = await self._reply(message)
        if reply.type is not aiohttp.WSMsgType.TEXT:
            await self.close()
            raise ServerUnreachable(f"{self.url} ended the session: {reply.data!r:.80} {reply.extra!r:.200}.")
        try:
            frame = strict_json.loads(reply.data, allow_surrogates=True)
        except ValueError as error:
            raise EnvironmentServerError(f"{self.url} sent data that is not JSON: {error}.") from error
        if not isinstance(frame, dict):
            raise EnvironmentServerError(f"{self.url} sent {frame!r:.80}, which is not a JSON object.")
        return frame

    async def _reply(self, message: Mapping[str, Any]) -> aiohttp.WSMessage:
        if (socket := self._socket) is None or (frame := self._next_frame) is None:
            raise ServerUnreachable(f"The session with {self.url} has ended.")
        try:
            async with asyncio.timeout(self._request_s):
                await socket.send_json(message)
                reply = await frame
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            await self.close()  # a late answer must not be taken for the next request's
            raise ServerUnreachable(f"{self.url} gave no answer within {self._request_s:g} s: {error!r}.") from error
        except BaseException:
            await self.close()
            raise
        self._listen(socket)
        return reply

    async def close(self) -> None:
        """End the session. May be called twice."""
        connection, self._socket = self._socket, None
        frame, self._next_frame = self._next_frame, None
        if connection is not None:
            await connection.close()
        if frame is not None:
            frame.cancel()
        await self._client.close()


def _refusal(answer: Mapping[str, Any], url: str) -> Exception:
    """Return the error in a server's answer: a rejected request, or a failure of the server."""
    code, message = str(answer.get("code")), str(answer.get("message"))
    if code in (ErrorCode.VALIDATION_ERROR, ErrorCode.EXECUTION_ERROR):
        details = answer.get("errors")
        return FrameRefused(ErrorCode(code), f"{message}: {details}" if details else message)
    return EnvironmentServerError(f"{url} answered with the error {code}: {message:.1000}")
