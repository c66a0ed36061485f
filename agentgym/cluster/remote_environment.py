"""RemoteEnvironment: an environment on another host, with the same contract as a local one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from types import new_class
from typing import Any, ClassVar, Self, cast

from agentgym.cluster.leases import EpisodeLease
from agentgym.cluster.server_connection import ServerConnection
from agentgym.cluster.tokens import client_token
from agentgym.cluster.wire import (
    WireError,
    checkpoint_from_json,
    checkpoint_to_json,
    encode,
    error_from_json,
    tool_from_json,
)
from agentgym.environment.contract import Environment
from agentgym.environment.sandboxes import EnvironmentSandboxes
from agentgym.environment.state import Checkpoint, Outlook
from agentgym.errors import (
    EnvironmentServerError,
    SandboxUnavailable,
    ServerUnreachable,
    ToolDefinitionError,
    UnknownNameError,
    VersionMismatch,
)
from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.sandbox import Usage
from agentgym.sandbox.contract import Layer
from agentgym.sandbox.guest.counted_time import longest_s
from agentgym.sandbox.time_limit import SandboxCall, uncounted
from agentgym.storage.codec import message_from_json, message_to_json, result_from_json
from agentgym.task.definition import Task
from agentgym.tools import WrongArguments
from agentgym.tools.definition import Tool

OPEN_S = 600.0
"""How long an episode waits for room on a full server."""
NO_LIMIT_S = 1e6
"""The limit of an operation outside any time limit: twelve days."""
ANSWER_S = 30.0
"""How much longer than the server this process waits for the end of an operation."""
_MAX_AT_ONCE = 16
"""The maximum concurrent requests of one episode: the calls of one message run in parallel."""
_ENVELOPE = 64 * 1024
"""The bytes of a request reserved for everything but the agent's text."""
_ADDRESS = re.compile(r"(?P<server>https?://[^/?#@\s]+)(?:/(?P<id>[^?#\s]*))?")

_classes: dict[tuple[str, str, str, str], type[RemoteEnvironment]] = {}
_connections: dict[tuple[str, str], ServerConnection] = {}


class RemoteSandboxes(EnvironmentSandboxes):
    """The sandboxes on the server: their usage and image digests.

    Args:
        read_usage: asks the server; None if the environment there has no sandboxes.
    """

    def __init__(self, read_usage: Callable[[], Awaitable[Usage]] | None) -> None:
        super().__init__()
        self._read_usage, self.were_opened = read_usage, read_usage is not None
        self.digests: list[str] = []
        self.weaker: list[str] = []

    @property
    def image_digests(self) -> list[str]:
        return self.digests

    @property
    def weaker_limits(self) -> list[str]:
        return self.weaker

    async def usage(self) -> Usage:
        return Usage() if self._read_usage is None else await self._read_usage()


class RemoteEnvironment(Environment):
    """An environment on a server that `agentgym serve environments` started. Isolation is the server's.

    The first request opens it. `close` closes it; so does the server if this process sends no heartbeat for the length
    of its lease. The task's truth is not sent: the reward judges in this process.

    Args:
        url: the URL of the server, for example http://10.0.0.7:8650.
        environment: the id of the environment on the server, for example agentgym/sql-v1.
        token: by default the one in the variable AGENTGYM_ENVIRONMENT_TOKEN, or in the file that
            AGENTGYM_ENVIRONMENT_TOKEN_FILE names.
        open_s: how long to wait for room, in seconds.
        options: arguments of the environment's constructor; a server refuses them unless it was started to allow them.
    Raises: ServerUnreachable, AccessRefused, VersionMismatch; UnknownNameError if the server has no such environment.
    """

    _connection: ClassVar[ServerConnection]
    _path: ClassVar[str]
    _digest: ClassVar[str]
    _unavailable: ClassVar[str] = ""
    _is_metered: ClassVar[bool] = False
    sandboxes: RemoteSandboxes

    def __new__(cls, url: str = "", environment: str = "", *, token: str | None = None, **options: Any) -> Self:
        """Return an instance of a class that has the tools and the optional methods of the served
        environment.
        """
        options.pop("open_s", None)
        if cls is not RemoteEnvironment:
            return super().__new__(cls)
        token = client_token() if token is None else token
        return super().__new__(cast("type[Self]", _class_of(url.rstrip("/"), environment, token, options)))

    def __init__(
        self, url: str, environment: str, *, token: str | None = None, open_s: float = OPEN_S, **options: Any
    ) -> None:
        self.url, self.environment = url.rstrip("/"), environment
        self._options, self._open_s = options, open_s
        self._lease: EpisodeLease | None = None
        self._is_closed = False
        self._remote_tools = self.tools
        self._tools_number = 0
        self.sandboxes = RemoteSandboxes(self._read_usage if self._is_metered else None)
        self._layers: dict[str, Layer] = {}

    @cached_property
    def _leasing(self) -> asyncio.Lock:
        """The lock held while the episode is being opened."""
        return asyncio.Lock()

    @cached_property
    def _asking(self) -> asyncio.Semaphore:
        """The semaphore held by each request, so that no agent exceeds the server's limit."""
        return asyncio.Semaphore(_MAX_AT_ONCE)

    @classmethod
    def unavailable_reason(cls) -> str:
        return cls._unavailable

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.ended = False
        rows = await self._ask("reset", task=task.public().to_json(), seed=seed)
        return [message_from_json(row) for row in rows]

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        row = checkpoint_to_json(checkpoint)
        await self._ask("restore", task=task.public().to_json(), seed=seed, checkpoint=row)

    async def call(self, call: Call) -> Result:
        """Run a call on the server; tools that were added to this instance run here."""
        is_remote = self._remote_tools.get(call.name) is self.tools.get(call.name)
        if call.error is None and not is_remote:
            return await super().call(call)
        fields, most = [call.name, call.arguments, call.id, call.error], (await self._open()).message_bytes - _ENVELOPE
        try:
            fits = len(encode(fields)) <= most
        except (TypeError, ValueError, RecursionError):
            return self._unsendable(call, "they are no JSON data, or nested too deeply")
        if not fits:
            return self._unsendable(call, f"they have more than {most} bytes")
        return result_from_json(await self._ask("call", call=fields))

    def _unsendable(self, call: Call, reason: str) -> Result:
        """Return the result of a call whose arguments cannot be sent."""
        tool = self.tools.get(call.name)
        text = f"Wrong arguments for {str(call.name)[:60]!r}: {reason}."
        try:
            if tool is not None:
                tool.validate(call.arguments)
        except WrongArguments as error:
            text = str(error)
        return Result(text, ResultStatus.WRONG_ARGUMENTS, call.name, call.id)

    async def close(self) -> None:
        """Close the episode on the server. Raises: EnvironmentServerError on failure; its lease then ends it."""
        self._is_closed = True
        lease, self._lease = self._lease, None
        self._layers = {}
        try:
            if lease is not None:
                await self._close_lease(lease)
        finally:
            await super().close()

    async def _close_lease(self, lease: EpisodeLease) -> None:
        try:
            if lease.lost is not None:
                return  # the server has closed it, or will at the end of its lease
            answer = await self._connection.ask(lease, "DELETE")
            if error_text := answer.get("close_error"):
                raise EnvironmentServerError(
                    f"The environment on the server at {self.url} failed to close: {error_text}"
                )
        finally:
            await self._connection.end(lease)

    async def _ask(self, operation: str, **arguments: Any) -> Any:
        """Return the value of an operation. Raises: the environment's error; EnvironmentServerError."""
        lease = await self._open()
        async with self._asking:
            number, lease.number = lease.number, lease.number + 1
            order: dict[str, Any] = {"number": number, "dropped": [*lease.dropped], "tools_number": self._tools_number}
            call, counted_s = SandboxCall(NO_LIMIT_S), 0.0
            order["limit_s"] = call.timeout_s
            try:
                content = encode(arguments | order)
                answer = await self._answer(lease, operation, content, call.timeout_s)
                counted_s = float(answer["counted_s"])
            except ServerUnreachable as error:
                lease.lose(error)  # the operation may have run: the environment's state is unknown
                raise
            except BaseException:
                lease.dropped.add(number)
                raise
            finally:
                call.end_elsewhere(counted_s)
        self._note_changes(answer)
        if answer.get("time_is_up"):
            await call.time_is_up()
            raise TimeoutError
        if (error_row := answer.get("error")) is not None:
            raise error_from_json(error_row, self.url)
        return answer.get("value")

    async def _answer(self, lease: EpisodeLease, operation: str, content: bytes, limit_s: float) -> dict[str, Any]:
        """Return the server's answer. Raises: ServerUnreachable if it takes much longer than the server would wait."""
        longest = longest_s(limit_s) + ANSWER_S
        try:
            async with asyncio.timeout(longest) as limit:
                answer: dict[str, Any] = await self._connection.ask(lease, "POST", f"/{operation}", content)
                return answer
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ServerUnreachable(f"The server at {self.url} gave no answer for {longest:.0f} s.") from error

    async def _read_usage(self) -> Usage:
        return Usage() if self._lease is None else Usage(**await self._ask("usage"))

    async def _open(self) -> EpisodeLease:
        with uncounted():
            return await self._opened()

    async def _opened(self) -> EpisodeLease:
        async with self._leasing:
            if self._is_closed:
                raise SandboxUnavailable(
                    f"This instance of {self.environment} on {self.url} is closed. Create another one."
                )
            if self._lease is None:
                body, path = {"digest": self._digest, "options": self._options}, f"{self._path}/episodes"
                try:
                    self._lease = await self._connection.open_episode(path, body, wait_s=self._open_s)
                except VersionMismatch:  # the next instance uses a fresh description
                    _forget(type(self))
                    raise
            return self._lease

    def _note_changes(self, answer: Mapping[str, Any]) -> None:
        self.ended = bool(answer.get("ended"))
        self.sandboxes.digests = answer.get("image_digests") or []
        self.sandboxes.weaker = answer.get("weaker_limits") or []
        if (changed := answer.get("tools")) is None:
            return
        added_here = [tool for name, tool in self.tools.items() if self._remote_tools.get(name) is not tool]
        tools = _tools_from_json(changed["tools"], self.url)
        self._tools_number, self._remote_tools = changed["number"], {tool.name: tool for tool in tools}
        self.tools = {tool.name: tool for tool in (*tools, *added_here)}


async def _respond(self: RemoteEnvironment, message: Message) -> list[Message]:
    rows = await self._ask("respond", message=message_to_json(message))
    return [message_from_json(row) for row in rows]


async def _state_key(self: RemoteEnvironment) -> str | None:
    key: str | None = await self._ask("state_key")
    return key


async def _potential(self: RemoteEnvironment) -> float | None:
    potential: float | None = await self._ask("potential")
    return potential


async def _outlook(self: RemoteEnvironment) -> Outlook | None:
    row = await self._ask("outlook")
    return None if row is None else Outlook(**row)


async def _checkpoint(self: RemoteEnvironment) -> Checkpoint | None:
    """Fetch a checkpoint; the server sends only layers that the last checkpoint lacked."""
    row = await self._ask("checkpoint", known=[*self._layers])
    try:
        checkpoint = checkpoint_from_json(row, self._layers)
    except WireError as error:
        raise EnvironmentServerError(
            f"The server at {self.url} sent an answer that cannot be used: {error}."
        ) from error
    if checkpoint is not None and checkpoint.snapshot is not None:
        self._layers = {layer.digest: layer for layer in checkpoint.snapshot.layers}
    return checkpoint


_OFFERED: Mapping[str, Callable[..., Any]] = {
    "respond": _respond,
    "state_key": _state_key,
    "potential": _potential,
    "outlook": _outlook,
    "checkpoint": _checkpoint,
}


def environment_at(address: str) -> Callable[..., Environment]:
    """Return a function that makes the environment at an address, such as http://10.0.0.7:8650/agentgym/sql-v1.

    The server is asked at once, so that a wrong address, token or id is an error before a run begins.
    Raises: UnknownNameError for a text that is not such an address; the errors of RemoteEnvironment.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise UnknownNameError(
            f"{address!r:.200} is not the address of an environment. Write http://HOST:PORT/NAMESPACE/NAME-vN."
        )
    server, environment_id = match["server"], match["id"] or ""
    if environment_id:
        _class_of(server, environment_id, client_token(), {})
    else:  # each task names its environment
        _connection(server, client_token()).ask_now("GET", "/v1/environments")
    return partial(RemoteEnvironment, server, environment_id)


def _connection(server: str, token: str) -> ServerConnection:
    key = (server, token)
    if key not in _connections:
        _connections[key] = ServerConnection(server, token)
    return _connections[key]


def _class_of(server: str, environment_id: str, token: str, options: Mapping[str, Any]) -> type[RemoteEnvironment]:
    """Return the class of a served environment, made once from its description."""
    key = (server, environment_id, token, repr(sorted(options.items())))
    if key in _classes:
        return _classes[key]
    connection = _connection(server, token)
    path = f"/v1/environments/{environment_id}"
    description = connection.ask_now("POST", path, {"options": dict(options)})
    try:
        offered = {name: _OFFERED[name] for name in description["offers"] if name in _OFFERED}
        attributes = {
            "__doc__": description["doc"],
            "__module__": __name__,
            "reward": description["reward"],
            "_connection": connection,
            "_path": path,
            "_digest": description["digest"],
            "_unavailable": description["unavailable"],
            "_is_metered": "usage" in description["offers"],
        }
        tools = _tools_from_json(description["tools"], server)
        name = str(description["class"])
        _classes[key] = new_class(
            name, (RemoteEnvironment,), {"tools": tools}, lambda namespace: namespace.update(attributes | offered)
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise EnvironmentServerError(
            f"The server at {server} describes {environment_id} in a way that cannot be read: {error}. It may be "
            "another version of agentgym."
        ) from error
    return _classes[key]


def _forget(cls: type[RemoteEnvironment]) -> None:
    for key, known in [*_classes.items()]:
        if known is cls:
            del _classes[key]


def _tools_from_json(rows: list[Mapping[str, Any]], server: str) -> list[Tool]:
    try:
        return [tool_from_json(row) for row in rows]
    except (KeyError, TypeError, ToolDefinitionError) as error:
        raise EnvironmentServerError(
            f"The server at {server} describes a tool in a way that cannot be read: {error}"
        ) from error
