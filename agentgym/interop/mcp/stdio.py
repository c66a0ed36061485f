"""One of our episodes as an MCP server on the standard streams of this process."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from agentgym import strict_json
from agentgym.errors import AgentGymError
from agentgym.rollout.config import RolloutConfig
from agentgym.storage.ledger import Ledger
from agentgym.task.definition import Task
from agentgym.trajectory.record import Trajectory

from .episode_server import EpisodeServer

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
        return {"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": f"This is no message: {error}"}}
    return await episode.answer(message)
