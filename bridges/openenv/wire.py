"""The frames of OpenEnv's protocol, used by both sides: openenv 0.10, `openenv/core/env_server/types.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agentgym import Message, ResultStatus
from agentgym.interop import mcp

MAX_FRAME_BYTES = 16 * 2**20
EXTENSION = "x-agentgym"
"""A key of our server's action schema. Such a server accepts `message` and `end`, and adds data to `metadata`."""


class ErrorCode(StrEnum):
    """The reason why a frame was rejected."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"


ERROR_TYPES: Mapping[ResultStatus, str] = {
    ResultStatus.MALFORMED: "invalid_args",
    ResultStatus.WRONG_ARGUMENTS: "invalid_args",
    ResultStatus.UNKNOWN_TOOL: "tool_not_found",
    ResultStatus.TIMEOUT: "timeout",
    ResultStatus.OVER_BUDGET: "execution_error",
}
"""The `error_type` of results that do not come from a tool."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A server's answer to a reset or a step.

    Attributes:
        fields: the fields of the observation, without its metadata.
        reward: the reward; None if the server gives none.
    """

    fields: Mapping[str, Any]
    reward: float | None = None
    done: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: Any) -> Observed:
        """Parse the `data` of a frame. Raises: ValueError saying what is wrong."""
        if not isinstance(data, Mapping) or not isinstance(observation := data.get("observation"), Mapping):
            raise ValueError(f"{data!r:.200} has no observation")
        reward, done = data.get("reward"), data.get("done", False)
        if reward is not None and not (isinstance(reward, int | float) and math.isfinite(reward)):
            raise ValueError(f"the reward is {reward!r:.80}, which is not a finite number")
        if not isinstance(done, bool):
            raise ValueError(f"`done` is {done!r:.80}, which is neither true nor false")
        metadata = data.get("metadata") or observation.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise ValueError(f"the metadata is {metadata!r:.80}, which is not an object")
        fields = {name: value for name, value in observation.items() if name != "metadata"}
        return cls(fields, None if reward is None else float(reward), done, metadata)

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of a frame. It has the metadata twice, because typed and untyped clients differ."""
        metadata = dict(self.metadata)
        observation = {**self.fields, "metadata": metadata}
        return {"observation": observation, "reward": self.reward, "done": self.done, "metadata": metadata}


class FrameRefused(Exception):
    """A frame that is answered with an error.

    Attributes:
        code: the error code of the answer.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code

    def to_json(self) -> dict[str, Any]:
        return {"type": "error", "data": {"message": str(self), "code": self.code}}


def message_to_json(message: Message) -> dict[str, Any]:
    """Encode a message of the environment: its role, and its content as text or as MCP blocks."""
    content = message.content
    return {"role": message.role, "content": content if isinstance(content, str) else mcp.content_to_mcp(content)}


def message_from_json(row: Any) -> Message:
    """Decode what `message_to_json` wrote. Raises: ValueError if it is not a message of an environment."""
    role, content = (row.get("role"), row.get("content")) if isinstance(row, Mapping) else (None, None)
    if role not in ("system", "user", "assistant", "tool") or not isinstance(content, str | list):
        raise ValueError(f"{row!r:.200} is not a message")
    return Message(role, content if isinstance(content, str) else mcp.content_from_mcp({"content": content}))
