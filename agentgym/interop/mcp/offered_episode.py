"""One episode of ours behind MCP: whoever calls its tools is the policy, and each call is a turn."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentgym import __version__
from agentgym.environment import Environment
from agentgym.errors import TaskError
from agentgym.messages import Call, ImagePart, Message, Result, ResultStatus, TextPart
from agentgym.policy import Policy, Reply, Request
from agentgym.registry import make
from agentgym.rollout import EpisodeManager, RolloutConfig
from agentgym.storage.ledger import Ledger
from agentgym.task import Task
from agentgym.trajectory import Trajectory

from .guest_bridge import ENVELOPE, HANDSHAKE, METHOD_NOT_FOUND, STATELESS

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)
"""The revisions with a handshake; of tools they say the same."""
INVALID_PARAMS, UNSUPPORTED_VERSION = -32_602, -32_022
_NOT_TO_CACHE = {"ttlMs": 0, "cacheScope": "private"}
_OVER = Result("The episode is over: no tool can be called any more.", ResultStatus.TOOL_ERROR)


class ClientPolicy(Policy):
    """The program behind an MCP client, as a policy. It has one call at a time."""

    name = "mcp-client"

    def __init__(self) -> None:
        self.calls: asyncio.Queue[Call | None] = asyncio.Queue()
        self.requests: asyncio.Queue[Request] = asyncio.Queue()
        self._has_left = False

    async def generate(self, request: Request) -> Reply:
        """Hand the conversation to the client and wait for its next call; once it has left, say nothing."""
        if not self._has_left:
            self.requests.put_nowait(request)
            if (call := await self.calls.get()) is not None:
                return Reply(Message("assistant", "", (call,)))
            self._has_left = True
        return Reply(Message("assistant", ""))


class OfferedEpisode:
    """Plays one task, and answers the messages of one MCP client. Made while an event loop runs.

    Args:
        config: of the episode; its `environment`, where it names none, is that of the task.
        ledger: keeps the episode, under a label of its own: `mcp-`, the time and the process.
    Attributes:
        trajectory: of the episode, once it is over.
    """

    def __init__(self, task: Task, config: RolloutConfig, ledger: Ledger | None = None) -> None:
        self._factory, self._options = config.environment or task.environment, dict(config.environment_options)
        self._policy = ClientPolicy()
        config = replace(
            config,
            environment=self._environment,
            environment_options={},
            concurrency=1,
            budgets=replace(config.budgets, max_void_turns=1),  # a client that has left
        )
        label = f"mcp-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        manager = EpisodeManager(self._policy, config, ledger=ledger, label=label)
        self._playing = asyncio.create_task(manager.collect([task]))
        self._request: Request | None = None
        self._one_call = asyncio.Lock()
        self._last = _OVER
        self.trajectory: Trajectory | None = None

    def _environment(self) -> Environment:
        """A new environment whose results are seen here too: a message of the conversation lacks their status."""
        factory = self._factory
        environment = make(factory, **self._options) if isinstance(factory, str) else factory(**self._options)
        run = environment.call

        async def call(call: Call) -> Result:
            self._last = await run(call)
            return self._last

        environment.call = call  # type: ignore[method-assign]
        return environment

    async def begin(self) -> None:
        """Wait until the environment is reset. Raises: TaskError with what failed if that never happens."""
        await self._next_request()
        if self._request is None and self.trajectory is not None:
            raise TaskError(f"{self.trajectory.task.id} cannot be offered: {self.trajectory.error}")

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
            "instructions": self._instructions(),
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

    def _instructions(self) -> str:
        """What opens the episode: the system's and the user's words."""
        opening = self._request.messages if self._request is not None else ()
        return "\n\n".join(message.text for message in opening if message.role in ("system", "user"))

    def _tools(self) -> list[dict[str, Any]]:
        functions = [schema["function"] for schema in (self._request.tools if self._request is not None else ())]
        return [
            {"name": function["name"], "description": function["description"], "inputSchema": function["parameters"]}
            for function in functions
        ]

    async def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        async with self._one_call:  # a client may send several at once: each is a turn of its own
            if self._request is None:
                return _result(_OVER)
            self._last = _OVER  # unless the environment answers: a budget was used up
            self._policy.calls.put_nowait(Call(name, arguments, f"call_{self._request.turn + 1}"))
            await self._next_request()
            return _result(self._last)

    async def _next_request(self) -> None:
        """Wait for the policy's next request, or for the end. Raises: what made the episode fail."""
        waiting = asyncio.create_task(self._policy.requests.get())
        await asyncio.wait([waiting, self._playing], return_when=asyncio.FIRST_COMPLETED)
        self._request = waiting.result() if waiting.done() else None
        if not waiting.done():
            waiting.cancel()
            [self.trajectory] = self._playing.result()

    async def close(self) -> Trajectory:
        """End the episode where it is: whoever left it has failed it. Returns: its trajectory."""
        self._policy.calls.put_nowait(None)
        [self.trajectory] = await self._playing
        return self.trajectory


def _result(result: Result) -> dict[str, Any]:
    content = result.content
    parts = [TextPart(content)] if isinstance(content, str) else content
    return {"content": [_block(part) for part in parts], "isError": not result.ok}


def _block(part: TextPart | ImagePart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "data": part.data, "mimeType": part.media_type}


def _error(code: int, message: str, **data: Any) -> dict[str, Any]:
    return {"code": code, "message": message, **({"data": data} if data else {})}
