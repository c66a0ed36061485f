"""One client's episodes of our tasks, one after the other, over OpenEnv's frames."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from agentgym import AgentGymError, Call, Message, Result, RolloutConfig, Task, Turn, prototype
from agentgym.interop import OfferedEpisode, mcp
from agentgym.storage import Ledger
from agentgym.text import counted

from .wire import ERROR_TYPES, ErrorCode, FrameRefused, Observed, message_to_json

ACTION_TYPES = ("call_tool", "list_tools", "message", "end")


@dataclass(frozen=True, slots=True)
class OfferedTasks:
    """Tasks that a server offers.

    Attributes:
        name: the name of the task set, as clients see it.
        tasks: the tasks that a reset may choose.
        config: the config of each episode. `ledger`: stores the episodes.
        label: prefix of the episodes' ids; each session adds its own number.
    """

    name: str
    split: str
    tasks: Sequence[Task]
    config: RolloutConfig
    label: str
    ledger: Ledger | None = None

    def choose(self, task_id: Any, index: Any, default: int) -> Task:
        """Return the task with this id or index; by default the one at `default` modulo the number of tasks.

        Raises: FrameRefused.
        """
        if task_id is not None:
            for task in self.tasks:
                if task.id == task_id:
                    return task
            some = ", ".join(task.id for task in self.tasks[:3])
            raise FrameRefused(
                ErrorCode.VALIDATION_ERROR,
                (
                    f"{self.name}:{self.split} has no task {task_id!r:.80}. It has "
                    f"{counted(len(self.tasks), 'task')}, for example {some}."
                ),
            )
        if index is None:
            return self.tasks[default % len(self.tasks)]
        if type(index) is not int or not 0 <= index < len(self.tasks):
            raise FrameRefused(
                ErrorCode.VALIDATION_ERROR,
                (f"`index` is {index!r:.80}, but {self.name}:{self.split} has the tasks 0 to {len(self.tasks) - 1}."),
            )
        return self.tasks[index]


class ClientSession:
    """Answers the frames of one client.

    Args:
        numbers: counts the server's episodes, so that each gets a unique label.
    Attributes:
        is_attached: whether a connection owns the session; a session without one ends when idle.
        last_used_s: time of the last request, on the event loop's clock.
    """

    def __init__(self, offered: OfferedTasks, numbers: count[int]) -> None:
        self._offered, self._numbers = offered, numbers
        self._episode: OfferedEpisode | None = None
        self._episode_id = ""
        self._paid = 0.0  # rewards already reported to the client
        self._in_order = asyncio.Lock()
        self._is_closed = False
        self.is_attached = False
        self.last_used_s = asyncio.get_running_loop().time()

    async def reset(self, data: Mapping[str, Any]) -> Observed:
        """Begin an episode, ending the current one as it is. Raises: FrameRefused."""
        seed = data.get("seed")
        if seed is not None and not (type(seed) is int and seed >= 0):
            raise FrameRefused(
                ErrorCode.VALIDATION_ERROR, f"`seed` is {seed!r:.80}. Give a whole number of at least 0."
            )
        async with self._in_order:
            if self._is_closed:  # the server no longer counts this session
                raise FrameRefused(ErrorCode.SESSION_ERROR, "The session has ended.")
            number = next(self._numbers)
            task = self._offered.choose(data.get("task_id"), data.get("index"), number if seed is None else seed)
            await self._leave()
            offered, self._paid = self._offered, 0.0
            label = f"{offered.label}-{number}"
            try:
                episode = OfferedEpisode(task, offered.config, offered.ledger, label=label, seed=seed)
                await episode.begin()
            except AgentGymError as error:
                raise FrameRefused(ErrorCode.FACTORY_ERROR, str(error)) from error
            self._episode = episode
            self._episode_id = str(data.get("episode_id") or episode.trajectory.id)
            opening = [message_to_json(message) for message in episode.trajectory.opening]
            return Observed({"prompt": episode.opening, "messages": opening, "task_id": task.id})

    async def step(self, action: Mapping[str, Any]) -> Observed:
        """Take one action. Raises: FrameRefused."""
        kind = action.get("type", "call_tool")
        if kind == "list_tools":
            return Observed({"tools": self.tools()}, done=self._episode is not None and self._episode.over)
        if kind not in ACTION_TYPES:
            raise FrameRefused(
                ErrorCode.VALIDATION_ERROR, f"`type` is {kind!r:.80}. Give one of {', '.join(ACTION_TYPES)}."
            )
        async with self._in_order:
            if (episode := self._episode) is None:
                raise FrameRefused(ErrorCode.EXECUTION_ERROR, "There is no episode. Send a reset first.")
            turns: list[Turn] = []
            tools_before = episode.tools
            if kind == "end":
                await episode.close()
            else:
                turns = await episode.say(_message(action, kind, len(episode.trajectory.turns)))
            if episode.trajectory.error is not None:
                raise FrameRefused(ErrorCode.SESSION_ERROR, f"The episode failed: {episode.trajectory.error}")
            fields, metadata = _turn_fields(turns, action.get("tool_name") if kind == "call_tool" else None)
            if not episode.over and episode.tools != tools_before:
                metadata["tools_changed"] = True
            return Observed(fields, self._pay(episode), episode.over, metadata | _end(episode))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run a tool call received over MCP as an ordinary turn.

        Returns: a `CallToolResult`.
        Raises: FrameRefused.
        """
        answer = await self.step({"type": "call_tool", "tool_name": name, "arguments": arguments})
        result: dict[str, Any] = answer.fields["result"]
        return result

    def _pay(self, episode: OfferedEpisode) -> float:
        """Return the reward since the last step; at the end also those of the outcome and of turns in hindsight."""
        total = episode.trajectory.return_from()
        earned, self._paid = total - self._paid, total
        return earned

    def tools(self) -> list[dict[str, Any]]:
        """Return the agent's current tools; before a reset, the tools that the environment has without a task."""
        if self._episode is not None and not self._episode.over:
            tools = self._episode.tools
        else:
            task = self._offered.tasks[0]
            environment = self._offered.config.environment or task.environment
            instance = prototype(environment, **self._offered.config.options_for(task))
            tools = [tool.schema()["function"] for tool in instance.tools.values()]
        return [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in tools
        ]

    def state(self) -> dict[str, Any]:
        trajectory = self._episode.trajectory if self._episode is not None else None
        return {
            "episode_id": self._episode_id or None,
            "step_count": len(trajectory.turns) if trajectory is not None else 0,
            "task_id": trajectory.task.id if trajectory is not None else None,
        }

    async def _leave(self) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            await episode.close()

    async def close(self) -> None:
        """End the current episode, if any, and let no other begin. May be called twice."""
        self._is_closed = True
        async with self._in_order:
            await self._leave()


def _message(action: Mapping[str, Any], kind: str, turn: int) -> Message:
    """Return the agent's message that an action represents. Raises: FrameRefused."""
    if kind == "message":
        if not isinstance(content := action.get("content"), str):
            raise FrameRefused(ErrorCode.VALIDATION_ERROR, f"`content` must be text, not {content!r:.80}.")
        return Message("assistant", content)
    name, arguments, metadata = action.get("tool_name"), action.get("arguments", {}), action.get("metadata", {})
    if not isinstance(name, str) or not isinstance(arguments, Mapping) or not isinstance(metadata, Mapping):
        raise FrameRefused(
            ErrorCode.VALIDATION_ERROR,
            (
                f"A call needs `tool_name`, a text, and `arguments`, an object, but has {name!r:.80} and "
                f"{arguments!r:.80}."
            ),
        )
    error = metadata.get("error")
    call = Call(name, dict(arguments), f"call_{turn + 1}", str(error) if error is not None else None)
    return Message("assistant", "", (call,))


def _turn_fields(turns: Sequence[Turn], tool_name: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the results of a turn, as fields of an observation and its metadata."""
    turn = turns[0] if turns else None
    metadata: dict[str, Any] = {"rewards": dict(turn.rewards) if turn is not None else {}}
    if tool_name is None:
        return {"messages": [message_to_json(reply) for reply in (turn.replies if turn is not None else ())]}, metadata
    result: Result = turn.results[0] if turn is not None else OfferedEpisode.OVER
    text = result.message().text
    error_type = ERROR_TYPES.get(result.status)
    block = mcp.result_to_mcp(result)
    fields = {
        "tool_name": tool_name,
        "result": {"content": block["content"], "data": text, "is_error": block["isError"]},
        "error": None if error_type is None else {"error_type": error_type, "message": text},
    }
    return fields, metadata | {"status": result.status, "final": result.final, "truncated": result.truncated}


def _end(episode: OfferedEpisode) -> dict[str, Any]:
    """Return the data that only the last frame has: the outcome, the weights of its components, and the stop reason."""
    if not episode.over:
        return {}
    trajectory = episode.trajectory
    return {
        "outcome": dict(trajectory.outcome),
        "weights": dict(trajectory.weights),
        "stop_reason": trajectory.stop_reason,
    }
