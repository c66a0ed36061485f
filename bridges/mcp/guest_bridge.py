"""Runs inside the sandbox: a client of one MCP server, which answers the environment's requests, one JSON line each.

Standard library only. Speaks the protocol of 2026-07-28, whose requests are independent, and the earlier protocols,
which begin with a handshake. Source: the specifications of both, and the answers of published servers.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from .guest_transports import ServerFailed, ServerLate, StandardStreams, StreamableHttp

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
"""The newest revisions without and with a handshake."""
METHOD_NOT_FOUND, NO_HANDSHAKE = -32_601, -32_022
PROBE_S = 5.0
"""How long a server may take to say whether it speaks STATELESS. If it does not answer, the handshake is tried, which
one that speaks STATELESS, and took longer to start, refuses with NO_HANDSHAKE."""
MAX_TOOLS, MAX_PAGES = 1_000, 100
ENVELOPE = "io.modelcontextprotocol/"
_WHO = {"name": "agentgym", "version": "1"}

Transport = StandardStreams | StreamableHttp


class RpcError(Exception):
    """The server answered a request with an error."""

    def __init__(self, error: Any) -> None:
        error = error if isinstance(error, dict) else {"message": error}
        self.code = error.get("code")
        super().__init__(str(error.get("message"))[:1_000])


class Client:
    """A connection to one server.

    Args:
        era: the MCP protocol to speak: `stateless` (STATELESS, whose requests are independent), `sessions` (the earlier
            ones, which begin with a handshake), or `auto` to find out which the server speaks.
    """

    def __init__(self, transport: Transport, era: str) -> None:
        self._transport, self._era = transport, era
        self._last_id = 0
        self._version = ""
        self._mirrored: dict[str, dict[str, str]] = {}
        self.tools_changed = False

    def start(self, deadline: float) -> dict[str, Any]:
        """Agree on a revision. Returns: the server's self-description. Raises: ServerFailed, ServerLate, RpcError."""
        probe = min(deadline, time.monotonic() + PROBE_S) if self._era == "auto" else deadline
        about = self._discover(probe) if self._era != "sessions" else None
        if about is None:
            try:
                about = self._shake_hands(deadline)
            except RpcError as error:
                if self._era == "sessions" or error.code != NO_HANDSHAKE or (about := self._discover(deadline)) is None:
                    raise
        return {"protocol": self._version, "instructions": str(about.get("instructions") or "")}

    def _discover(self, deadline: float) -> dict[str, Any] | None:
        """Ask for the server's description in the form of STATELESS; None if the server does not support that form."""
        self._use(STATELESS)
        auto = self._era == "auto"
        try:
            about = self.request("server/discover", {}, deadline)
        except (RpcError, ServerLate) as error:
            if auto:
                return None
            if isinstance(error, ServerLate):
                raise
            raise ServerFailed(f"The server does not support MCP {STATELESS}: {error}") from error
        except ServerFailed:
            if auto and isinstance(self._transport, StreamableHttp):  # an older server refuses the headers
                return None
            raise
        versions = about.get("supportedVersions")
        return about if isinstance(versions, list) and STATELESS in versions else None

    def _shake_hands(self, deadline: float) -> dict[str, Any]:
        self._use("")
        offer = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _WHO}
        about = self.request("initialize", offer, deadline)
        self._use(str(about.get("protocolVersion") or HANDSHAKE))
        self._transport.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, deadline)
        return about

    def _use(self, version: str) -> None:
        self._version = version
        if isinstance(self._transport, StreamableHttp):
            self._transport.version = version

    def tools(self, deadline: float) -> list[dict[str, Any]]:
        """Return all tools that the server offers, from all pages. Raises: ServerFailed, ServerLate, RpcError."""
        self.tools_changed = False
        tools: list[dict[str, Any]] = []
        cursor = None
        for _ in range(MAX_PAGES):
            page = self.request("tools/list", {"cursor": cursor} if cursor else {}, deadline)
            listed = page.get("tools")
            if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
                raise ServerFailed(f"The server's list of tools is not a list of objects: {str(page)[:300]}")
            tools += listed
            cursor = page.get("nextCursor")
            if not cursor or len(tools) > MAX_TOOLS:
                break
        if cursor or len(tools) > MAX_TOOLS:
            raise ServerFailed(f"The server offers more than {MAX_TOOLS} tools, or its list of tools never ends.")
        self._mirrored = {str(entry.get("name")): _mirrored_arguments(entry.get("inputSchema")) for entry in tools}
        return tools

    def call(self, name: str, arguments: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        """Call a tool. Raises: ServerFailed, ServerLate, RpcError."""
        return self.request("tools/call", {"name": name, "arguments": arguments}, deadline)

    def request(self, method: str, params: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Send a request and wait for the answer; other messages of the server are answered or dropped meanwhile."""
        self._last_id += 1
        is_stateless = self._version == STATELESS
        if is_stateless:
            envelope = {"protocolVersion": STATELESS, "clientCapabilities": {}, "clientInfo": _WHO}
            params = {**params, "_meta": {ENVELOPE + name: value for name, value in envelope.items()}}
        if isinstance(self._transport, StreamableHttp):
            self._transport.mirrored = self._routing(method, params) if is_stateless else {}
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        try:
            for received in self._transport.ask(message, deadline):
                if "method" in received:
                    self._hear(received, deadline)
                elif received.get("id") == self._last_id or ("error" in received and received.get("id") is None):
                    if "error" in received:
                        raise RpcError(received["error"])
                    result = received.get("result")
                    return result if isinstance(result, dict) else {}
        except ServerLate:
            if not is_stateless and method != "initialize" and isinstance(self._transport, StandardStreams):
                about = {"requestId": self._last_id, "reason": "It took too long."}
                self._transport.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": about}, deadline)
            raise
        raise ServerFailed("The server ended its reply before the answer.")

    def _routing(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the values that STATELESS requires in headers as well."""
        headers = {"Mcp-Method": method}
        if method == "tools/call":
            headers["Mcp-Name"] = params["name"]
            for argument, header in self._mirrored.get(params["name"], {}).items():
                if (value := params["arguments"].get(argument)) is not None:
                    headers[f"Mcp-Param-{header}"] = value if isinstance(value, str) else json.dumps(value)
        return headers

    def _hear(self, received: Mapping[str, Any], deadline: float) -> None:
        """Handle a notification or a request of the server. A ping is answered; requests for a model or a person are
        refused.
        """
        if received["method"] == "notifications/tools/list_changed":
            self.tools_changed = True
        if "id" not in received:
            return
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": received["id"]}
        if received["method"] == "ping":
            reply["result"] = {}
        else:
            reply["error"] = {"code": METHOD_NOT_FOUND, "message": f"No one answers {received['method']!s:.100} here."}
        self._transport.send(reply, deadline)


def _mirrored_arguments(schema: Any) -> dict[str, str]:
    """Return the arguments that must be sent in headers as well, by header name."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return {
        str(name): str(entry["x-mcp-header"])
        for name, entry in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(entry, dict) and "x-mcp-header" in entry
    }


class Bridge:
    """Answers each of the environment's requests with one line."""

    def __init__(self) -> None:
        self._client: Client | None = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return `ok` with a result, `error` from the server, `late`, or `failed` if the server is no longer usable."""
        deadline = time.monotonic() + request["timeout_s"]
        try:
            if request["do"] == "start":
                if request["url"]:
                    transport: Transport = StreamableHttp(request["url"], request["headers"])
                else:
                    transport = StandardStreams(request["command"], request["environment"])
                self._client = Client(transport, request["era"])
                return {"ok": self._client.start(deadline), "tools": self._client.tools(deadline)}
            assert self._client is not None
            reply: dict[str, Any] = {"ok": self._client.call(request["name"], request["arguments"], deadline)}
            if self._client.tools_changed:
                with contextlib.suppress(RpcError, ServerLate, ServerFailed):  # the result is valid all the same
                    reply["tools"] = self._client.tools(deadline)
            return reply
        except RpcError as error:
            return {"error": f"{error} (code {error.code})"}
        except ServerLate:
            return {"late": True}
        except ServerFailed as error:
            return {"failed": str(error)}


def serve() -> None:
    """Answer lines until the environment closes the input."""
    bridge = Bridge()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(bridge.answer(json.loads(line))) + "\n")
        sys.stdout.flush()
