"""An episode of ours as an MCP server: whoever calls its tools is the policy, and each call is a turn."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from agentgym import __version__
from agentgym.interop.offered_episode import OfferedEpisode
from agentgym.messages import Call
from agentgym.rollout import RolloutConfig
from agentgym.storage.ledger import Ledger
from agentgym.task import Task
from agentgym.trajectory import Trajectory

from .content import result_to_mcp
from .guest_bridge import ENVELOPE, HANDSHAKE, METHOD_NOT_FOUND, STATELESS

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)
"""The revisions with a handshake; of tools they say the same."""
INVALID_PARAMS, UNSUPPORTED_VERSION = -32_602, -32_022
_NOT_TO_CACHE = {"ttlMs": 0, "cacheScope": "private"}


class EpisodeServer:
    """Plays one task, and answers the messages of one MCP client. Made while an event loop runs.

    Args:
        config: of the episode; its `environment`, where it names none, is that of the task.
        ledger: keeps the episode, under a label of its own: `mcp-`, the time and the process.
    """

    def __init__(self, task: Task, config: RolloutConfig, ledger: Ledger | None = None) -> None:
        label = f"mcp-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self._episode = OfferedEpisode(task, config, ledger, label=label)

    async def begin(self) -> None:
        """Wait until the environment is reset. Raises: TaskError with what failed if that never happens."""
        await self._episode.begin()

    async def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The reply to a message; None for a notification, or a reply to a request that we never send."""
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
            "instructions": self._episode.opening,
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
            result = await self._call(name, dict(arguments or {}))
        else:
            return reply | {"error": _error(METHOD_NOT_FOUND, f"There is no method {method!s:.100}.")}
        return reply | {"result": {"resultType": "complete", **result}}

    def _tools(self) -> list[dict[str, Any]]:
        return [
            {"name": tool["name"], "description": tool["description"], "inputSchema": tool["parameters"]}
            for tool in self._episode.tools
        ]

    async def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        number = len(self._episode.trajectory.turns) + 1
        return result_to_mcp(await self._episode.call(Call(name, arguments, f"call_{number}")))

    async def close(self) -> Trajectory:
        """End the episode where it is: whoever left it has failed it. Returns: its trajectory."""
        return await self._episode.close()


def _error(code: int, message: str, **data: Any) -> dict[str, Any]:
    return {"code": code, "message": message, **({"data": data} if data else {})}
