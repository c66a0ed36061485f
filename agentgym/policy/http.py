"""A JSON endpoint over HTTP that survives the usual failures of model servers: overload, restarts, partial answers.

Hand-written on httpx: tenacity would only replace the loop, not Retry-After, the errors that name a remedy, or the
client per event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx

from agentgym.errors import ContextFull, PolicyError
from agentgym.policy.event_stream import BrokenStream, join_events
from agentgym.text import counted

RETRYABLE = frozenset({408, 409, 425, 429})  # statuses to retry, besides those from 500 on ...
FINAL = frozenset({501, 505})  # ... except these, which mean that the server lacks this interface
_LOGGER = logging.getLogger(__name__)
REACH_S = 5.0
"""The timeout of finding out whether a server can be reached."""
T = TypeVar("T")
_UNIX_SOCKET = re.compile(r"unix:(?P<socket>/.+?\.sock)(?P<path>/.*)?")
_NO_QUOTA = (
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance",
    "billing_hard_limit",
    "billing hard",
    "insufficient balance",
    "insufficient_balance",
    "insufficient credit",
)
_FULL = (
    "context length",
    "context_length",
    "context size",
    "context window",
    "maximum context",
    "max_model_len",
    "too many tokens",
    "prompt is too long",
    "input is too long",
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to keep trying, in seconds. Pauses begin at backoff_s and double after each failed attempt.

    Attributes:
        attempt_s: limit of one attempt, from sending to the last byte.
        total_s: limit of all attempts, including the pauses between them.
        attempts: the largest number of attempts.
        backoff_s, longest_backoff_s: the first and the longest pause, before jitter (a factor drawn from 0.5 to 1).
            A server's longer Retry-After takes precedence.
        unreached_s: how long to try a server that has never answered, because its address is wrong or it is not
            running. After that time, each further request is tried only once, until one is answered.
    """

    attempt_s: float = 300.0
    total_s: float = 900.0
    attempts: int = 8
    backoff_s: float = 0.5
    longest_backoff_s: float = 30.0
    unreached_s: float = 5.0

    def __post_init__(self) -> None:
        times = (self.attempt_s, self.total_s, self.backoff_s, self.longest_backoff_s, self.unreached_s)
        if min(times) <= 0 or self.attempts < 1:
            raise ValueError(f"{self} is not valid: a RetryPolicy needs times above 0 s, and at least one attempt.")


DEFAULT_RETRY_POLICY = RetryPolicy()


class _RetryableFailure(Exception):
    """An attempt failed in a way that may be temporary.

    Attributes:
        wait_s: the pause that the server asked for.
        unreached: whether there was no JSON answer, so that the server may be down or a different one.
    """

    def __init__(self, why: str, wait_s: float = 0.0, *, unreached: bool = False) -> None:
        super().__init__(why)
        self.wait_s, self.unreached = wait_s, unreached


class JsonEndpoint:
    """Posts JSON, gets JSON.

    Args:
        base_url: for example http://127.0.0.1:8000, or unix:/path/of.sock for a socket of this machine.
        headers: sent with each request, never shown in an error.
        retry_policy: see RetryPolicy.
        connections: the maximum number of open connections; further requests wait for one.
        jitter: randomises the pauses, so that a thousand clients do not retry at the same moment.
        check_server: called after a failed attempt. It raises PolicyError if the server is known to have ended, so that
            no request waits for it.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: dict[str, str] | None = None,
        retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY,
        connections: int = 256,
        jitter: random.Random | None = None,
        check_server: Callable[[], None] | None = None,
    ) -> None:
        self.base_url, self.retry_policy = base_url.rstrip("/"), retry_policy
        on_socket = _UNIX_SOCKET.fullmatch(self.base_url)
        if not on_socket and not re.match(r"https?://[^/]", self.base_url):
            raise PolicyError(
                f"{base_url!r} is not the URL of a server. Begin it with http:// or https://, for example "
                "http://localhost:8000/v1."
            )
        self._socket = on_socket["socket"] if on_socket else None
        self._http_url = f"http://localhost{on_socket['path'] or ''}" if on_socket else self.base_url
        self._headers, self.connections = dict(headers or {}), connections
        self._jitter, self._check_server = jitter or random.Random(), check_server
        self._has_answered = self._given_up = False  # the server ever answered; unreached_s has passed
        self._has_warned = False
        # One client per connection: a client that has many looks at each of them in every request.
        self._clients: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []
        self._tls: ssl.SSLContext | None = None
        self._slots = asyncio.Semaphore(connections)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, path: str, body: dict[str, Any] | None = None, *, plain_text: bool = False) -> Any:
        """Send a POST request and return the answer's JSON; None if the answer is empty.

        Args:
            plain_text: return the answer's text instead, for answers that are not JSON.
        Raises: PolicyError naming path, status and the beginning of the answer, if a retry cannot help or the retry
            policy is exhausted; ContextFull if the server says that the prompt is too long.
        """
        return await self._in_turn("POST", path, body, plain_text)

    async def get(self, path: str) -> Any:
        """Send a GET request; otherwise as `post`."""
        return await self._in_turn("GET", path, None, False)

    async def check_reach(self, path: str) -> None:
        """Send a GET request, once; any answer will do. Raises: PolicyError without one."""
        try:
            async with self._connection() as client, asyncio.timeout(REACH_S):
                await client.get(self._http_url + path)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise PolicyError(f"{self._server_address()} does not answer ({type(error).__name__})") from error

    def on_hosts_that_reach_it(self, make: Callable[[], T]) -> Callable[[], T] | None:
        """Return `make` for other nodes: it raises PolicyError there if the address means this host alone.

        None for a socket, which only programs of this host reach.
        """
        try:
            host = "" if self._socket else httpx.URL(self.base_url).host
        except httpx.InvalidURL:
            host = ""
        if not host:
            return None
        if host == "localhost" or host.startswith(("127.", "0.0.0.0")) or host == "::1":
            return partial(_make_on, own_loopback(), self._server_address(), make)
        return make

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients, self._idle = self._clients, [], []
        if self._loop is asyncio.get_running_loop():
            await asyncio.gather(*(client.aclose() for client in clients))

    async def _in_turn(self, *request: Any) -> Any:
        """Wait for a free connection, then try. The limits of the retry policy begin after the wait."""
        async with self._connection() as client:
            return await self._patiently(client, *request)

    async def _patiently(
        self, client: httpx.AsyncClient, method: str, path: str, body: dict[str, Any] | None, plain_text: bool
    ) -> Any:
        now = asyncio.get_running_loop().time
        began, pause, tries = now(), self.retry_policy.backoff_s, 0
        ends = began + self.retry_policy.total_s
        while True:
            tries += 1
            try:
                async with asyncio.timeout(min(self.retry_policy.attempt_s, ends - now())):
                    answer = await self._attempt(client, method, path, body)
                    return answer.text if plain_text else self._content_of(answer)
            except TimeoutError:
                failed = _RetryableFailure(f"no answer within {self.retry_policy.attempt_s:g} s")
            except _RetryableFailure as failure:
                failed = failure
            if self._check_server is not None:
                self._check_server()
            wait = max(pause * self._jitter.uniform(0.5, 1.0), failed.wait_s)
            pause = min(2 * pause, self.retry_policy.longest_backoff_s)
            unreached = self._is_unreached(failed)
            limit = min(ends, began + self.retry_policy.unreached_s) if unreached else ends
            if tries >= self.retry_policy.attempts or now() + wait >= limit or self._given_up:
                self._given_up = unreached
                raise PolicyError(
                    f"{method} {path} failed {counted(tries, 'time')}. The last failure: {failed}. Check that the "
                    f"server at {self._server_address()} is running{self._remedy(tries, unreached)}."
                ) from failed
            if not (unreached or self._has_warned):
                self._has_warned = True
                _LOGGER.warning(
                    "%s %s failed: %s. The request is repeated for up to %.0f s.", method, path, failed, ends - now()
                )
            await asyncio.sleep(wait)

    def _remedy(self, tries: int, unreached: bool) -> str:
        """Return advice on which field of the retry policy to raise."""
        policy = self.retry_policy
        if unreached:
            return f", or raise retry_policy.unreached_s (now {policy.unreached_s:g} s) if it is still starting"
        if tries >= policy.attempts:
            return f", or raise retry_policy.attempts (now {policy.attempts})"
        return f", or raise retry_policy.total_s (now {policy.total_s:g} s) or attempt_s (now {policy.attempt_s:g} s)"

    def _is_unreached(self, failure: _RetryableFailure) -> bool:
        return failure.unreached and not self._has_answered

    async def _attempt(
        self, client: httpx.AsyncClient, method: str, path: str, body: dict[str, Any] | None
    ) -> httpx.Response:
        try:
            answer = await client.request(method, self._http_url + path, json=body)
        except (httpx.TransportError, httpx.DecodingError) as error:
            unreached = isinstance(error, (httpx.ConnectError, httpx.UnsupportedProtocol))
            raise _RetryableFailure(f"{type(error).__name__}: {error}", unreached=unreached) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PolicyError(f"{method} {path} cannot be sent to {self._server_address()}: {error}") from error
        if answer.is_success:
            return answer
        response_excerpt = f"status {answer.status_code}: {_excerpt(answer.text)}"
        status, text = answer.status_code, answer.text.lower() if answer.status_code >= 400 else ""
        if status == 402 or (status in (400, 403, 429) and any(sign in text for sign in _NO_QUOTA)):
            raise PolicyError(
                f"{method} {path} was refused with {response_excerpt}. The account has no quota left, so the "
                "request is not repeated. Add credit to the account, or use another account's key."
            )
        if status != 429 and any(sign in text for sign in _FULL):  # 429: too many tokens in a minute
            raise ContextFull(
                f"{method} {path}: the server refuses the conversation as too long ({response_excerpt}). Allow fewer "
                "turns, or shorter tool results."
            )
        if status in RETRYABLE or (status >= 500 and status not in FINAL):
            raise _RetryableFailure(response_excerpt, _retry_after(answer.headers.get("retry-after")))
        raise PolicyError(
            f"{method} {path} was refused with {response_excerpt}. The request is not repeated: correct it first."
        )

    def _content_of(self, answer: httpx.Response) -> Any:
        if not answer.content.strip():
            return None
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return self._joined(answer.text)
        try:
            content = answer.json()
        except (ValueError, RecursionError) as error:
            raise _RetryableFailure(f"the answer is not JSON: {_excerpt(answer.text)}", unreached=True) from error
        self._has_answered, self._given_up = True, False
        return content

    def _joined(self, stream: str) -> Any:
        try:
            content = join_events(stream)
        except BrokenStream as error:
            raise _RetryableFailure(str(error)) from error
        self._has_answered, self._given_up = True, False
        return content

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[httpx.AsyncClient]:
        """Wait for a free connection of this event loop, and lend its client. No client works in another loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._clients, self._idle = [], []
            self._loop, self._slots = loop, asyncio.Semaphore(self.connections)
        async with self._slots:
            client = self._idle.pop() if self._idle else self._new_client()
            try:
                yield client
            finally:
                if client in self._clients:  # else they were closed meanwhile
                    self._idle.append(client)

    def _new_client(self) -> httpx.AsyncClient:
        self._tls = self._tls or httpx.create_ssl_context()
        client = httpx.AsyncClient(
            headers=self._headers,
            timeout=None,  # asyncio.timeout above bounds the whole attempt; httpx would bound each read
            verify=self._tls,
            transport=httpx.AsyncHTTPTransport(uds=self._socket) if self._socket else None,
        )
        self._clients.append(client)
        return client

    def _server_address(self) -> str:
        if self._socket:
            return self.base_url
        try:
            url = httpx.URL(self.base_url)
        except httpx.InvalidURL:
            return repr(self.base_url)
        return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")  # leaves out user name and password


def own_loopback() -> str:
    """Return an id of this process's loopback network, the same in all processes that share it; "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return ""


def _make_on(loopback: str, address: str, make: Callable[[], T]) -> T:
    """Return what `make` makes. Raises: PolicyError on another host than that of `loopback`."""
    if not loopback or own_loopback() != loopback:
        raise PolicyError(f"{address} is an address of the driver's host alone")
    return make()


def _excerpt(text: str, limit: int = 300) -> str:
    short = " ".join(text[: 2 * limit].split())
    return repr(short if len(short) <= limit else short[:limit] + "...")


def _retry_after(value: str | None) -> float:
    """Return the seconds that a Retry-After header asks for, by a number or a date; 0 if it is unreadable."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value)) if value.strip().replace(".", "", 1).isdigit() else _until(value)
    except (ValueError, TypeError):
        return 0.0


def _until(date: str) -> float:
    moment = parsedate_to_datetime(date)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
