"""Our tools over MCP, in both eras of the protocol: the answer to each message."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import __version__
from agentgym.messages import Result

from .content import result_to_mcp

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
"""The newest revisions without and with a handshake."""
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)
"""The revisions with a handshake, which all treat tools in the same way."""
OVER = "agentgym/over"
"""The key in a result's `_meta` that marks a call that ended the episode."""
ENVELOPE = "io.modelcontextprotocol/"
"""The prefix of the protocol's own keys in a message's `_meta`."""
METHOD_NOT_FOUND, INVALID_PARAMS, UNSUPPORTED_VERSION = -32_601, -32_602, -32_022
_NOT_TO_CACHE = {"ttlMs": 0, "cacheScope": "private"}


class ToolServer(ABC):
    """Answers the messages of MCP clients."""

    @abstractmethod
    def instructions(self) -> str:
        """Return the instructions for clients on using the tools."""

    @abstractmethod
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the current tools, each with `name`, `description` and `parameters`."""

    @abstractmethod
    async def run(self, name: str, arguments: dict[str, Any]) -> Result:
        """Run a tool."""

    @property
    def is_over(self) -> bool:
        """Whether no tool can be called any more. The result of the ending call is marked accordingly."""
        return False

    async def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the reply to a message; None for a notification, or a reply to a request that we never send."""
        if "id" not in message or "method" not in message:
            return None
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        method, params = message["method"], message.get("params")
        params = params if isinstance(params, Mapping) else {}
        meta = params.get("_meta")
        version = meta.get(f"{ENVELOPE}protocolVersion") if isinstance(meta, Mapping) else None
        if version not in (None, STATELESS):
            return reply | {"error": _error(UNSUPPORTED_VERSION, f"We speak {STATELESS}.", supported=[STATELESS])}
        about = {
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "agentgym", "version": __version__},
            "instructions": self.instructions(),
        }
        result: dict[str, Any]
        if method == "server/discover":
            result = {"supportedVersions": [STATELESS, *reversed(HANDSHAKES)], **about, **_NOT_TO_CACHE}
        elif method == "initialize":
            offered = params.get("protocolVersion")
            result = {"protocolVersion": offered if offered in HANDSHAKES else HANDSHAKE, **about}
        elif method == "ping":
            result = {}
        elif method == "tools/list":
            result = {"tools": self._tools(), **_NOT_TO_CACHE}
        elif method == "tools/call":
            name, arguments = params.get("name"), params.get("arguments")
            if not isinstance(name, str) or not isinstance(arguments if arguments is not None else {}, Mapping):
                return reply | {"error": _error(INVALID_PARAMS, "A call has a name, and arguments that are an object.")}
            result = result_to_mcp(await self.run(name, dict(arguments or {})))
            result |= {"_meta": {OVER: True}} if self.is_over else {}
        else:
            return reply | {"error": _error(METHOD_NOT_FOUND, f"There is no method {method!s:.100}.")}
        return reply | {"result": {"resultType": "complete", **result}}

    def _tools(self) -> list[dict[str, Any]]:
        return [
            {"name": tool["name"], "description": tool["description"], "inputSchema": tool["parameters"]}
            for tool in self.tools()
        ]


def _error(code: int, message: str, **data: Any) -> dict[str, Any]:
    return {"code": code, "message": message, **({"data": data} if data else {})}
