"""An MCP server: how to start or reach it, and a connection to it from within a sandbox."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from agentgym import GuestModule, SandboxDied, SandboxError, SandboxUnavailable, TaskError, ToolError
from agentgym.sandbox import Channel, Sandbox

BRIDGE = GuestModule(__package__, "guest_transports", "guest_bridge")
_BRIDGE_PATH = "/tmp/agentgym-mcp-bridge.py"
_SLACK_S = 5.0
"""The environment waits this many seconds longer than the bridge for an answer."""

_RAN = 0.5
"""A server that was kept from a processor for more than this share of its time was not too slow."""


@dataclass(frozen=True, slots=True)
class McpServer:
    """How to start or reach an MCP server. Give `command` or `url`.

    Attributes:
        command: a program in the sandbox and its arguments; it speaks MCP over its standard streams.
        url: the URL of a server over streamable HTTP. The sandbox must be allowed to reach it.
        files: texts to write into the sandbox before the server starts, by path relative to /work.
        environment: variables of the program. `headers`: headers of every request to the URL, such as a token.
        era: `stateless` for the protocol of 2026-07-28, `sessions` for the earlier ones, which begin with a handshake;
            `auto` detects which the server speaks.
        start_s: timeout in seconds of starting and listing tools. `call_s`: timeout of a call.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    era: Literal["auto", "stateless", "sessions"] = "auto"
    start_s: float = 120.0
    call_s: float = 60.0

    def __post_init__(self) -> None:
        """Raise TaskError for an invalid field."""
        if bool(self.command) == bool(self.url):
            raise TaskError(
                f"An MCP server needs either a command or a url, but has {self.command!r} and {self.url!r}."
            )
        if not all(isinstance(part, str) and "\0" not in part for part in self.command):
            raise TaskError(
                f"The command {self.command!r} of an MCP server must be a list of texts: the program and its "
                "arguments, such as ['python', 'server.py']."
            )
        parts = urlsplit(self.url)
        if self.url and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise TaskError(f"The url {self.url!r} of an MCP server is not valid: give https://HOST/PATH.")
        for name in ("files", "environment", "headers"):
            texts = getattr(self, name)
            if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in (*texts, *texts.values())):
                raise TaskError(f"{name} of an MCP server must map names to texts, but it is {texts!r:.200}.")
        if self.era not in ("auto", "stateless", "sessions"):
            raise TaskError(f"era = {self.era!r} of an MCP server is not valid: give auto, stateless or sessions.")
        if not (self.start_s > 0 and self.call_s > 0):
            raise TaskError(
                f"start_s = {self.start_s} and call_s = {self.call_s} of an MCP server are not valid: both must be "
                "above 0."
            )

    @classmethod
    def parse(cls, data: Any, task: str) -> Self:
        """Make a server from a task's parameters. Raises: TaskError naming the task."""
        if not isinstance(data, Mapping) or not isinstance(data.get("command", []), list):
            raise TaskError(
                f"{task}: parameters['server'] must be an object such as {{\"command\": [...]}}, not {data!r:.200}."
            )
        try:
            return cls(**{**data, "command": tuple(data.get("command", ()))})
        except TypeError as error:
            raise TaskError(f"{task}: parameters['server'] is not valid: {error}.") from error
        except TaskError as error:
            raise TaskError(f"{task}: {error}") from error

    @property
    def location(self) -> str:
        """The server's URL or command, for messages."""
        return self.url or " ".join(self.command)

    @property
    def origin(self) -> str:
        """`host:port` of its URL, as the network of a sandbox takes it."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


class McpConnection:
    """A running server, reached through a bridge that runs in its sandbox.

    Attributes:
        tools: the server's tools, each with `name`, `description`, `inputSchema` and any further fields.
        lists_read: how often the list of tools was read: once, and again whenever the server reports a change.
        protocol: the server's revision of MCP. `instructions`: its instructions for use.
    """

    def __init__(self, server: McpServer, sandbox: Sandbox, channel: Channel) -> None:
        self._server, self._sandbox, self._channel = server, sandbox, channel
        self._ended = ""
        self.tools: list[dict[str, Any]] = []
        self.lists_read = 0
        self.protocol = self.instructions = ""

    @classmethod
    async def open(cls, server: McpServer, sandbox: Sandbox) -> Self:
        """Start or reach a server.

        Raises: TaskError for a file that cannot be written; SandboxUnavailable with the server's error; SandboxDied.
        """
        for path, text in server.files.items():
            try:
                await sandbox.write(path, text.encode())
            except SandboxError:
                raise
            except OSError as error:
                raise TaskError(f"The file {path!r} of an MCP server cannot be written: {error}") from error
        await sandbox.write(_BRIDGE_PATH, BRIDGE.program("serve").encode())
        connection = cls(server, sandbox, await sandbox.open_channel(["python3", "-I", "-S", _BRIDGE_PATH]))
        start = {name: getattr(server, name) for name in ("url", "headers", "environment", "era")}
        start |= {"do": "start", "command": [*server.command]}
        try:
            reply = await connection._ask(start, server.start_s)
        except ToolError as error:
            raise SandboxUnavailable(f"The MCP server {server.location!r} cannot be started: {error}") from error
        about = reply["ok"]
        connection.protocol = str(about.get("protocol", ""))
        connection.instructions = str(about.get("instructions", ""))
        return connection

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool. Returns: the `CallToolResult` of the protocol.

        Raises: ToolError if the server refuses, takes too long or has ended; SandboxDied.
        """
        request = {"do": "call", "name": name, "arguments": arguments}
        result: dict[str, Any] = (await self._ask(request, self._server.call_s))["ok"]
        return result

    async def _ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        if self._ended:
            raise ToolError(self._ended)
        began, waited_s = time.monotonic(), self._channel.waited_s
        try:
            reply = await self._channel.request({**request, "timeout_s": timeout_s}, timeout_s=timeout_s + _SLACK_S)
        except (SandboxDied, TimeoutError):
            await self._sandbox.exec(["true"])  # raises SandboxDied if the whole sandbox has ended
            raise self._end("The server has ended, and with it the process that connects it to agentgym.") from None
        if not _is_reply(reply):  # the server runs beside the bridge, and may have forged its reply
            raise self._end("The server has damaged the process that connects it to agentgym.")
        if "failed" in reply:
            raise self._end(str(reply["failed"]))
        if "late" in reply:
            ran_s = time.monotonic() - began - (self._channel.waited_s - waited_s)
            if ran_s < _RAN * timeout_s:
                raise SandboxError(
                    f"The machine let an MCP server run for {ran_s:.1f} of its {timeout_s:g} s: it has too much to do. "
                    "Run fewer episodes at once."
                )
            raise ToolError(f"The server did not answer within {timeout_s:g} s.")
        if "error" in reply:
            raise ToolError(str(reply["error"]))
        if "tools" in reply:
            self.tools, self.lists_read = reply["tools"], self.lists_read + 1
        return dict(reply)

    def _end(self, reason: str) -> ToolError:
        """Mark the connection as ended; return the error of this call and all further ones."""
        self._ended = reason
        return ToolError(reason)

    async def close(self) -> None:
        """End the bridge and, if it was started here, the server. May be called twice."""
        await self._channel.close()


def _is_reply(reply: Any) -> bool:
    """Return whether a value has the form of a bridge's reply."""
    if not isinstance(reply, dict) or not {"ok", "failed", "late", "error"} & reply.keys():
        return False
    tools = reply.get("tools", [])
    return isinstance(reply.get("ok", {}), dict) and isinstance(tools, list) and all(isinstance(e, dict) for e in tools)
