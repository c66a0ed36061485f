"""One of our episodes as an MCP server: the client that calls its tools is the policy, and each call is a turn."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import AgentGymError, Call, Result, RolloutConfig, Task, Trajectory, strict_json
from agentgym.interop import OfferedEpisode, mcp
from agentgym.storage import Ledger


class EpisodeServer(mcp.ToolServer):
    """Plays one task, and answers the messages of one MCP client. Needs a running event loop.

    Args:
        config: the config of the episode; if it names no `environment`, the task's is used.
        ledger: stores the episode. label: the beginning of the episode's id; by default from `episode_label`.
    """

    def __init__(self, task: Task, config: RolloutConfig, ledger: Ledger | None = None, *, label: str = "") -> None:
        self.task = task
        self._episode = OfferedEpisode(task, config, ledger, label=label or episode_label())

    async def begin(self) -> None:
        """Wait until the environment is reset. Raises: TaskError with the failure if the reset fails."""
        await self._episode.begin()

    def instructions(self) -> str:
        """Return the opening text of the episode."""
        return self._episode.opening

    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Return the current tools."""
        return self._episode.tools

    @property
    def is_over(self) -> bool:
        """Whether no tool can be called any more."""
        return self._episode.request is None

    async def run(self, name: str, arguments: dict[str, Any]) -> Result:
        """Run a tool, as a turn of one call."""
        number = len(self._episode.trajectory.turns) + 1
        return await self._episode.call(Call(name, arguments, f"call_{number}"))

    async def close(self) -> Trajectory:
        """End the episode in its current state; if the client left early, it has failed. Returns: the trajectory."""
        return await self._episode.close()


def episode_label() -> str:
    """Return a label unique to this process: `mcp-`, the time and the process id."""
    return f"mcp-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


MAX_LINE_BYTES = 8 * 2**20
PARSE_ERROR = -32_700


async def serve_on_stdio(task: Task, config: RolloutConfig, ledger: Ledger | None = None) -> Trajectory:
    """Offer an episode to the program that started this process, until the program closes our input.

    Redirect all other output to standard error meanwhile, because standard output carries only messages.

    Returns: the trajectory, which has failed if the client left before its end.
    Raises: AgentGymError if the episode does not begin, or the client sends a line of more than MAX_LINE_BYTES.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "wb", buffering=0) as replies:
        os.dup2(2, 1)
        try:
            episode = EpisodeServer(task, config, ledger)
            await episode.begin()
            while line := await asyncio.to_thread(sys.stdin.buffer.readline, MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    raise AgentGymError(f"The client sent a line of more than {MAX_LINE_BYTES} bytes.")
                if (reply := await _answer(episode, line)) is not None:
                    replies.write(json.dumps(reply).encode() + b"\n")
            return await episode.close()
        finally:
            sys.stdout.flush()
            os.dup2(replies.fileno(), 1)


async def _answer(episode: EpisodeServer, line: bytes) -> dict[str, object] | None:
    if not line.strip():
        return None
    try:
        message = strict_json.loads(line, allow_surrogates=True)
        if not isinstance(message, dict):
            raise ValueError("it is not a JSON object")
    except ValueError as error:
        return {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": PARSE_ERROR, "message": f"This is not a message: {error}"},
        }
    return await episode.answer(message)
