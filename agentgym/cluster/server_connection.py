"""The client's connection to one environment server: descriptions, requests that are never resent, and heartbeats.

A request gets the answer, the environment's error, or an EnvironmentServerError. A request whose answer was lost may
have run, so it is never sent again: the episode continues from its checkpoint elsewhere.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from agentgym import __version__
from agentgym.cluster.leases import EpisodeLease, Heartbeats
from agentgym.cluster.wire import PROTOCOL, PROTOCOL_HEADER, WireError, decode, encode, error_from_json
from agentgym.errors import (
    AccessRefused,
    EnvironmentServerError,
    LeaseLost,
    ServerFull,
    ServerUnreachable,
    UnknownNameError,
    VersionMismatch,
)

CONNECT_S = 10.0
"""The timeout of connecting, and of an answer about the server itself."""
_KEEP_ALIVE_S = 30.0  # shorter than the server's, so that the server closes no connection during a request
_LARGEST_ANSWER = 2**30
_ERRORS: Mapping[str, type[EnvironmentServerError]] = {
    "full": ServerFull,
    "lease_lost": LeaseLost,
    "options": AccessRefused,
    "protocol": VersionMismatch,
    "changed": VersionMismatch,
    "wrong_token": AccessRefused,
}


class ServerConnection:
    """Requests to one server. Each open episode has its own connections, and a separate connection renews all leases.

    Args:
        url: for example http://10.0.0.7:8650, without a path.
        token: the secret shared with the server.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._headers = {
            "authorization": f"Bearer {token}",
            PROTOCOL_HEADER: str(PROTOCOL),
            "content-type": "application/json",
        }
        is_encrypted = url.startswith("https:")
        self._tls = httpx.create_ssl_context() if is_encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._heartbeats: dict[asyncio.AbstractEventLoop, Heartbeats] = {}

    def ask_now(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Request information about the server itself; blocks, and needs no event loop. Raises: as `ask`."""
        content = None if body is None else encode(body)
        try:
            with httpx.Client(headers=self._headers, timeout=CONNECT_S, verify=self._tls, trust_env=False) as client:
                response = client.request(method, self.url + path, content=content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.unreachable(error) from error
        return self._content(response.status_code, response.content)

    async def open_episode(self, path: str, body: Mapping[str, Any], *, wait_s: float) -> EpisodeLease:
        """Open an episode. While the server is full, retry for up to `wait_s` seconds.

        Raises: ServerFull; any error of making the environment; as `ask`.
        """
        client = self.new_client()
        try:
            answer = await self._ask_for_room(client, path, body, wait_s)
            if (error_row := answer.get("error")) is not None:
                raise error_from_json(error_row, self.url)
            lease = EpisodeLease(str(answer["episode"]), client, int(answer["message_bytes"]))
        except (KeyError, TypeError, ValueError) as error:
            await client.aclose()
            raise EnvironmentServerError(
                f"The server at {self.url} sent an answer that cannot be read: {error!r}. It may be another version "
                "of agentgym."
            ) from error
        except BaseException:
            await client.aclose()
            raise
        loop = asyncio.get_running_loop()
        if loop not in self._heartbeats:
            self._heartbeats[loop] = Heartbeats(self, float(answer["lease_s"]))
        self._heartbeats[loop].add(lease)
        return lease

    async def _ask_for_room(self, client: httpx.AsyncClient, path: str, body: Mapping[str, Any], wait_s: float) -> Any:
        now = asyncio.get_running_loop().time
        ends, pause_s = now() + wait_s, 0.1
        while True:
            try:
                content = encode({**body, "wait_s": max(0.0, ends - now())})
                return await self._send(client, "POST", path, content)
            except ServerFull as error:  # a refused request can safely be sent again
                if now() + pause_s >= ends:
                    raise ServerFull(
                        f"{error} No place became free within {wait_s:g} s. Play fewer episodes at once "
                        "(concurrency), or start the server with a larger --max-episodes."
                    ) from error
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, 2.0)

    async def ask(self, lease: EpisodeLease, method: str, path: str = "", content: bytes | None = None) -> Any:
        """Send a request about an episode, once, and return the answer.

        Args:
            path: the path below the episode's.
        Raises: ServerUnreachable without an answer; LeaseLost, AccessRefused, VersionMismatch and
            EnvironmentServerError as the server answers.
        """
        if lease.lost is not None:
            raise lease.lost
        try:
            async with asyncio.timeout(None) as limit:
                lease.watch(limit)
                return await self._send(lease.client, method, f"/v1/episodes/{lease.id}{path}", content)
        except TimeoutError as error:
            if lease.lost is None:
                raise
            raise lease.lost from error
        finally:
            lease.unwatch(limit)

    async def _send(self, client: httpx.AsyncClient, method: str, path: str, content: bytes | None) -> Any:
        try:
            request = client.build_request(method, self.url + path, content=content)
            response = await client.send(request, stream=True)
            answer = await _read(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.unreachable(error) from error
        return self._content(response.status_code, answer)

    async def end(self, lease: EpisodeLease) -> None:
        """Forget a closed episode; after the last one stop the heartbeats."""
        if lease.loop is not asyncio.get_running_loop():
            return  # the lease's loop has ended together with its connections
        await lease.client.aclose()
        heartbeats = self._heartbeats.get(lease.loop)
        if heartbeats is not None:
            heartbeats.remove(lease)
            if not heartbeats:
                del self._heartbeats[lease.loop]
                await heartbeats.end()

    async def renew(self, client: httpx.AsyncClient, episode_ids: list[str]) -> Any:
        """Renew leases. Returns: for each closed episode, the reason. Raises: as `ask`."""
        return (await self._send(client, "POST", "/v1/heartbeats", encode({"episodes": episode_ids})))["lost"]

    def new_client(self) -> httpx.AsyncClient:
        """Return a new connection pool, for use by one thread."""
        return httpx.AsyncClient(
            headers=self._headers,
            timeout=httpx.Timeout(None, connect=CONNECT_S),  # the lease bounds how long an answer may take
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEEP_ALIVE_S),
            verify=self._tls,
            trust_env=False,
        )

    def _content(self, status: int, content: bytes) -> dict[str, Any]:
        try:
            answer = decode(content)
        except WireError as error:
            raise EnvironmentServerError(
                f"The program at {self.url} is not an environment server, or one of another version: it answered with "
                f"status {status}, and {error}."
            ) from error
        if status == 200:
            return answer
        reason = answer.get("error")
        if not isinstance(reason, dict):
            raise EnvironmentServerError(
                f"The program at {self.url} is not an environment server: it answered with status {status}. Check the "
                "address."
            )
        kind, message = str(reason.get("kind")), str(reason.get("message"))
        if kind == "unknown_environment":
            raise UnknownNameError(f"The environment server at {self.url}: {message}")
        raise _ERRORS.get(kind, EnvironmentServerError)(
            f"The environment server at {self.url}: {message}{_remedy(kind)}"
        )

    def unreachable(self, error: Exception) -> ServerUnreachable:
        """Return the error for a server that does not answer."""
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        return ServerUnreachable(
            f"The environment server at {self.url} does not answer ({reason}). Check that `agentgym serve "
            "environments` runs there and that this host reaches it."
        )


async def _read(response: httpx.Response) -> bytes:
    """Return the body of a response. Raises: httpx.DecodingError if it is too large."""
    pieces, size = [], 0
    try:
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > _LARGEST_ANSWER:
                raise httpx.DecodingError(f"the answer has more than {_LARGEST_ANSWER} bytes")
            pieces.append(piece)
    finally:
        await response.aclose()
    return b"".join(pieces)


def _remedy(kind: str) -> str:
    return {
        "wrong_token": " Set the variable AGENTGYM_ENVIRONMENT_TOKEN to the one in its token file.",
        "protocol": f" This is agentgym {__version__}: install the same version on both sides.",
        "changed": " It was started anew with other code: start this run again, so that it plays one environment only.",
    }.get(kind, "")
