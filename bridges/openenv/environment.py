"""Environments behind an OpenEnv server as ours: `register_openenv`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

from agentgym import (
    Call,
    Content,
    Environment,
    EnvironmentServerError,
    Message,
    Result,
    ResultStatus,
    Reward,
    StopReason,
    Task,
    TaskError,
    TaskSet,
    Tool,
    ToolDefinitionError,
    Trajectory,
    Turn,
    UnknownNameError,
    install_command,
    register,
)
from agentgym.interop import mcp
from agentgym.reward import SUCCESS, Components

from .wire import EXTENSION, ErrorCode, FrameRefused, Observed, message_from_json

ACT = "act"
"""The tool of a server whose actions are not tool calls."""
_STATUSES = {
    "tool_not_found": ResultStatus.UNKNOWN_TOOL,
    "invalid_args": ResultStatus.WRONG_ARGUMENTS,
    "timeout": ResultStatus.TIMEOUT,
    "execution_error": ResultStatus.TOOL_ERROR,
}
_MAX_CHARS = 10**6


@dataclass(slots=True)
class OpenEnvEpisode:
    """State of an OpenEnv episode: the sum of its rewards, the last one, and whether it is done."""

    total: float = 0.0
    last: float = 0.0
    done: bool = False


def _rewarded(episode: OpenEnvEpisode) -> bool:
    return episode.done and episode.last > 0


class OpenEnvEnvironment(Environment):
    """An environment behind an OpenEnv server: one session an episode. What is isolated is up to the server.

    Made by `register_openenv`, or from an address: `openenv+http://HOST:PORT`. Its tools are those that the server
    lists. If the server's actions are not tool calls, the only tool is `act`, whose arguments are the action's fields.
    The server's rewards are the rewards of the turns. Task parameters, both optional:
        seed: the seed of the reset; by default the episode's seed.
        reset: further arguments of the server's reset, such as {"task_id": "train/0001"}.

    An agentgym server sends more than the protocol requires (see docs/environments/servers.md), so that an episode has
    the same result as in the server's process.
    """

    url: ClassVar[str] = ""
    headers: ClassVar[Mapping[str, str]] = {}
    request_s: ClassVar[float] = 120.0
    solved: ClassVar[Callable[[OpenEnvEpisode], bool]] = staticmethod(_rewarded)

    def __init__(self) -> None:
        self.reward = _ServerRewards(self)
        self._connection: Any = None
        self._is_ours = False
        self._episode = OpenEnvEpisode()
        self._earned: Components = {}  # rewards since the last judged turn
        self._end: Mapping[str, Any] = {}  # metadata of the final frame from an agentgym server

    @classmethod
    def unavailable_reason(cls) -> str:
        if find_spec("aiohttp") is not None:
            return ""
        return f"An OpenEnv server needs aiohttp, which is not installed. Run: {install_command('openenv')}"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open a session and begin an episode in it.

        Raises: ServerUnreachable, EnvironmentServerError; TaskError if the server rejects the reset or offers an
            invalid tool.
        """
        from .connection import OpenEnvConnection

        await self._disconnect()
        self.ended, self._episode, self._end = False, OpenEnvEpisode(), {}
        self._earned = {}
        self._connection = await OpenEnvConnection.open(self.url, self.headers, self.request_s)
        schema = self._connection.action_schema
        self._is_ours = EXTENSION in schema
        options = task.parameters.get("reset", {"task_id": task.id} if self._is_ours else {})
        if not isinstance(options, Mapping):
            raise TaskError(f"{task.id}: parameters['reset'] must be an object, not {options!r:.200}.")
        chosen = int(task.parameters.get("seed", seed))
        try:
            seeded = {"seed": chosen if self._is_ours else chosen % 2**31}  # the range that numpy accepts
            opened = await self._connection.ask("reset", seeded | dict(options))
            await self._take_tools(schema, task.id)
        except FrameRefused as refused:
            raise TaskError(f"{task.id}: {self.url} refused the reset: {refused}") from refused
        self._note(opened)
        if self._is_ours:
            return self._messages(opened.fields.get("messages"))
        return [*task.opening(), *([Message("user", text)] if (text := _text_of(opened.fields)) else [])]

    async def _take_tools(self, schema: Mapping[str, Any], task: str) -> None:
        """Register the tools that the server offers. Raises: TaskError, FrameRefused."""
        properties = schema.get("properties", {})
        if not properties.keys() <= {"metadata"} and "tool_name" not in properties:
            fields = {name: field for name, field in properties.items() if name != "metadata"}
            required = [name for name in schema.get("required", ()) if name in fields]
            parameters = {**schema, "properties": fields, "required": required}
            rows: Any = [{"name": ACT, "description": schema.get("description") or "Act.", "input_schema": parameters}]
        else:
            rows = (await self._connection.ask("step", {"type": "list_tools"})).fields.get("tools")
        try:
            tools = [_tool(row, self.request_s) for row in rows]
        except (TypeError, AttributeError, KeyError, ToolDefinitionError) as error:
            raise TaskError(f"{task}: {self.url} offers a tool that cannot be used: {error}") from error
        self.tools = {}
        self.add_tools(*tools)

    async def call(self, call: Call) -> Result:
        """Let the server run a call. A rejected or failed call returns a result, too.

        Raises: ServerUnreachable, EnvironmentServerError.
        """
        if call.error is not None and not self._is_ours:
            return await super().call(call)
        is_act = ACT in self.tools and not self._is_ours
        if is_act and call.name != ACT:
            return await super().call(call)
        action: dict[str, Any] = call.arguments
        if not is_act:
            action = {"type": "call_tool", "tool_name": call.name, "arguments": call.arguments}
            if call.error is not None:
                action["metadata"] = {"error": call.error}
        async with self._in_order:
            try:
                answer = await self._connection.ask("step", action)
            except FrameRefused as refused:
                wrong = refused.code is ErrorCode.VALIDATION_ERROR
                status = ResultStatus.WRONG_ARGUMENTS if wrong else ResultStatus.TOOL_ERROR
                return Result(Tool.render_output(str(refused), _MAX_CHARS)[0], status, call.name, call.id)
            self._note(answer)
            if self._is_ours and answer.metadata.get("tools_changed"):
                await self._take_tools(self._connection.action_schema, "The server has changed its tools")
        return self._result(answer, call, is_act=is_act)

    def _result(self, answer: Observed, call: Call, *, is_act: bool) -> Result:
        if is_act:
            return _cut(_text_of(answer.fields) or "[done]", ResultStatus.OK, call, self.tools[ACT])
        error, given = answer.fields.get("error"), answer.fields.get("result")
        content, status = _content_of(given)
        if self._is_ours:
            metadata = answer.metadata
            try:
                status = ResultStatus(str(metadata.get("status")))
            except ValueError as wrong:
                raise EnvironmentServerError(f"{self.url} answered a call without a valid status: {wrong}.") from wrong
            final, truncated = bool(metadata.get("final")), bool(metadata.get("truncated"))
            return Result(content, status, call.name, call.id, final, truncated)
        if isinstance(error, Mapping):
            kind = str(error.get("error_type"))
            if kind not in _STATUSES:
                raise EnvironmentServerError(
                    f"{self.url} reports that {call.name!r} failed: {error.get('message')!s:.500}"
                )
            content, status = str(error.get("message")), _STATUSES[kind]
        return _cut(content, status, call, self.tools.get(call.name))

    async def respond(self, message: Message) -> list[Message]:
        """Return an agentgym server's answer to the agent's message; other servers cannot answer one."""
        if not self._is_ours:
            return []
        async with self._in_order:
            answer = await self._connection.ask("step", {"type": "message", "content": message.text})
            self._note(answer)
        return self._messages(answer.fields.get("messages"))

    def _messages(self, rows: Any) -> list[Message]:
        try:
            return [message_from_json(row) for row in rows]
        except (TypeError, ValueError) as error:
            raise EnvironmentServerError(f"{self.url} answered with messages that cannot be read: {error}.") from error

    def _note(self, observed: Observed) -> None:
        """Record the observed reward and whether the episode is done."""
        episode = self._episode
        if observed.reward is not None:
            episode.last = observed.reward
            episode.total += observed.reward
        episode.done = episode.done or observed.done
        if self._is_ours:
            for name, value in _numbers(observed.metadata.get("rewards")).items():
                self._earned[name] = self._earned.get(name, 0.0) + value
            if observed.done:
                self._end = observed.metadata
        elif observed.reward is not None:
            self._earned["reward"] = self._earned.get("reward", 0.0) + observed.reward
        # a final answer ends the episode by itself
        if observed.done and self._end.get("stop_reason") != StopReason.ANSWERED:
            self.end_episode()

    def take_earned(self) -> Components:
        """Return the components earned since the last call of this method."""
        earned, self._earned = self._earned, {}
        return earned

    async def verdict(self) -> tuple[Components, Mapping[str, float]]:
        """Return the components of the outcome and their weights. An unfinished episode is ended first."""
        if not self._is_ours:
            components = {SUCCESS: float(type(self).solved(self._episode)), "return": self._episode.total}
            return components, {SUCCESS: 0.0, "return": 0.0}  # the turns' rewards were given already
        if not self._episode.done:
            self._note(await self._connection.ask("step", {"type": "end"}))
        return _numbers(self._end.get("outcome")), _numbers(self._end.get("weights"))

    async def close(self) -> None:
        await self._disconnect()
        await super().close()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class _ServerRewards(Reward):
    """The rewards that one episode's server pays for its turns and reports at its end."""

    def __init__(self, environment: OpenEnvEnvironment) -> None:
        self._environment = environment
        self.weights: Mapping[str, float] = {}

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        return self._environment.take_earned()

    async def outcome(self, episode: Trajectory) -> Components:
        components, self.weights = await self._environment.verdict()
        return components


def register_openenv(
    name: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    request_s: float = 120.0,
    solved: Callable[[OpenEnvEpisode], bool] | None = None,
) -> str:
    """Register an environment behind an OpenEnv server in this process: `register_openenv("me/echo-v1", "http://...")`.

    Args:
        name: `namespace/name-vN`.
        url: the URL of the server, without `/ws`. It is contacted when an episode begins.
        headers: the headers of each request, such as {"Authorization": "Bearer ..."}.
        request_s: how long a request may take.
        solved: whether an episode is a success; by default, if it is done and its last reward is above 0.
    Returns: the name.
    Raises: TaskError for an invalid URL; DuplicateNameError; ValueError for a name of another form.
    """
    options: dict[str, Any] = {"headers": dict(headers or {}), "request_s": request_s}
    if solved is not None:
        options["solved"] = staticmethod(solved)
    register(name, _environment_class(name, url, options))
    return name


def environment_at(address: str) -> Callable[..., Environment]:
    """Return the environment at `openenv+http://HOST:PORT`. Raises: UnknownNameError for an invalid address."""
    try:
        return _environment_class("OpenEnv", address.removeprefix("openenv+"), {})
    except TaskError as error:
        raise UnknownNameError(
            f"{address!r:.200} is not the address of an OpenEnv server. Write openenv+http://HOST:PORT."
        ) from error


def openenv_tasks(
    name: str, prompt: str, *, train: int = 200, validation: int = 20, held_out: int = 40, seed: int = 0
) -> TaskSet:
    """Return tasks of a registered environment that differ by the seed of the reset; the set is called `<name>`.

    Args:
        prompt: the text that the agent reads before its first observation.
    """
    return TaskSet.seeded(name, prompt, train=train, validation=validation, held_out=held_out, seed=seed)


def _environment_class(name: str, url: str, options: Mapping[str, Any]) -> type[OpenEnvEnvironment]:
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise TaskError(f"The url {url!r:.200} of an OpenEnv server is not valid. Give http://HOST:PORT.")
    body = {"url": url.rstrip("/"), "__doc__": f"What the OpenEnv server at {url} offers.", **options}
    return type(re.sub(r"\W", "_", name), (OpenEnvEnvironment,), body)


def _tool(row: Mapping[str, Any], request_s: float) -> Tool:
    schema = row.get("input_schema") or row.get("inputSchema") or {}
    name = str(row["name"])
    about = str(row.get("description") or name)
    return Tool.from_schema(
        name, about, {"type": "object", "properties": {}, **schema}, partial(_unused, name), timeout_s=request_s
    )


def _unused(name: str, arguments: dict[str, Any]) -> None:
    raise RuntimeError(f"The tool {name} runs on the server. Call it through the environment.")


def _content_of(given: Any) -> tuple[Content, ResultStatus]:
    """Return content and status of a tool's result: an MCP `CallToolResult`, in camel or snake case, or any JSON."""
    if isinstance(given, str):
        return given, ResultStatus.OK
    if not isinstance(given, Mapping) or not isinstance(given.get("content"), list):
        return json.dumps(given, ensure_ascii=False), ResultStatus.OK
    structured = given.get("structuredContent", given.get("structured_content"))
    content = mcp.content_from_mcp({"content": given["content"], "structuredContent": structured})
    failed = given.get("isError", given.get("is_error"))
    return content, ResultStatus.TOOL_ERROR if failed else ResultStatus.OK


def _text_of(fields: Mapping[str, Any]) -> str:
    """Return an observation as text: the value of its only field if that is text, else all fields as JSON."""
    fields = {name: value for name, value in fields.items() if name not in ("done", "reward", "metadata")}
    values = list(fields.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json.dumps(fields, ensure_ascii=False) if fields else ""


def _cut(content: Content, status: ResultStatus, call: Call, tool: Tool | None) -> Result:
    most = tool.options.max_output_chars if tool is not None else _MAX_CHARS
    text, truncated = Tool.render_output(content, most)
    return Result(text, status, call.name, call.id, truncated=truncated)


def _numbers(given: Any) -> dict[str, float]:
    """Return the components that a server names, without values that are not finite numbers."""
    pairs = given.items() if isinstance(given, Mapping) else ()
    return {
        str(name): float(value)
        for name, value in pairs
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }
