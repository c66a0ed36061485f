"""One episode of ours behind MCP: whoever calls its tools is the policy, and each call is a turn."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from agentgym.environment import Environment
from agentgym.errors import TaskError
from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.policy import Policy, Reply, Request
from agentgym.registry import make
from agentgym.rollout import EpisodeManager, RolloutConfig
from agentgym.storage.ledger import Ledger
from agentgym.task import Task
from agentgym.trajectory import Trajectory

from .tool_server import ToolServer

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


class OfferedEpisode(ToolServer):
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

    def instructions(self) -> str:
        """What opens the episode: the system's and the user's words."""
        opening = self._request.messages if self._request is not None else ()
        return "\n\n".join(message.text for message in opening if message.role in ("system", "user"))

    def schemas(self) -> Iterable[Mapping[str, Any]]:
        """As ToolServer."""
        return self._request.tools if self._request is not None else ()

    async def run(self, name: str, arguments: dict[str, Any]) -> Result:
        """As ToolServer."""
        async with self._one_call:  # a client may send several at once: each is a turn of its own
            if self._request is None:
                return _OVER
            self._last = _OVER  # unless the environment answers: a budget was used up
            self._policy.calls.put_nowait(Call(name, arguments, f"call_{self._request.turn + 1}"))
            await self._next_request()
            return self._last

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
