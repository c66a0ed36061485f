"""The tools of an MCP server as an environment: `agentgym/mcp-v1` and `register_mcp`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from agentgym import (
    Content,
    Environment,
    Message,
    SandboxSpec,
    Task,
    TaskError,
    Tool,
    ToolDefinitionError,
    ToolError,
    load,
    register,
)
from agentgym.interop import mcp

from .server import McpConnection, McpServer

ANSWER_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
MAX_STATE_CHARS = 10**6
TASK_OVER = "The task is over.\n"
"""The first line of the result of a call that ends an episode; the end state follows as JSON."""


class McpEnvironment(Environment):
    """The tools of an MCP server. Isolated: the server runs in a separate sandbox, a new one for each episode.

    Task parameters, all optional; only `server` is required if the environment was registered without a server:
        server: {"command": [...], "files": {path: text}, ...}, the fields of `McpServer`.
        files: files to write before the server starts, by path, in addition to the server's own: text, or
            {"asset": name} for the registered asset of that name.
        tools: names of the tools that the agent gets; by default all.
        final: names of tools of the server that end the episode; without any the agent has `answer(text)`.
        state: calls, each {"tool": name, "arguments": {...}}, whose results the reward `mcp` judges. They are made when
            the episode ends, and may use tools that the agent does not get.

    If the server ends or does not answer a call, the agent reads this as the result; a server that does not start is a
    failure of the infrastructure. The server's requests to sample from a model or to ask a person are not answered.
    """

    reward = "mcp"
    task_set = "mcp/stockroom-v1"
    sandbox = SandboxSpec()
    server: ClassVar[McpServer | None] = None

    def __init__(self) -> None:
        self._connection: McpConnection | None = None
        self._tool_names: Collection[str] | None = None
        self._final_names: Collection[str] = ()
        self._state_calls: list[tuple[str, dict[str, Any]]] = []
        self._call_s = 0.0
        self._lists_read = 0

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Start a new server and adopt its tools.

        Raises: TaskError; SandboxUnavailable, with the server's error output, if it does not start.
        """
        self.ended = False
        server = self._read_parameters(task)
        self._call_s = server.call_s
        if self._connection is not None:
            await self._connection.close()
        self._connection = await McpConnection.open(server, await self.default_sandbox(empty=True))
        offered = self._offered()
        named = {*(self._tool_names or ()), *self._final_names, *(name for name, _ in self._state_calls)}
        if missing := sorted(named - offered.keys()):
            raise TaskError(
                f"{task.id} names the tools {', '.join(missing)}, which the server does not offer. It offers "
                f"{', '.join(offered)}."
            )
        self._take_tools(task.id)
        instructions = self._connection.instructions.strip()
        return [*([Message("system", instructions)] if instructions else ()), *task.opening()]

    def _read_parameters(self, task: Task) -> McpServer:
        given, own = task.parameters, type(self).server
        server = McpServer.parse(given["server"], task.id) if "server" in given else own
        if server is None:
            raise TaskError(
                f"{task.id} has no parameters['server'], so no server can be started. Give {{\"command\": "
                '["python3", "server.py"], "files": {"server.py": TEXT}}, or register a server by '
                "agentgym.bridges.mcp.register_mcp."
            )
        if server.url and "server" in given:
            raise TaskError(
                f"{task.id} names the url {server.url!r}, but a task cannot give its sandbox access to the network. "
                "Register the server: agentgym.bridges.mcp.register_mcp(NAME, url=...)."
            )
        self._tool_names, self._final_names = given.get("tools"), given.get("final", ())
        for name, names in (("tools", self._tool_names or ()), ("final", self._final_names)):
            if not isinstance(names, list | tuple) or not all(isinstance(entry, str) for entry in names):
                raise TaskError(
                    f"{task.id}: parameters[{name!r}] must be a list of names of tools, not {names!r:.200}."
                )
        try:
            calls = given.get("state", ())
            self._state_calls = [(str(call["tool"]), dict(call.get("arguments", {}))) for call in calls]
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise TaskError(
                f'{task.id}: parameters[\'state\'] must be a list of {{"tool": name, "arguments": {{...}}}}, not '
                f"{given['state']!r:.200}."
            ) from error
        return replace(server, files={**server.files, **_texts_of(given.get("files", {}), task.id)})

    def _offered(self) -> dict[str, Mapping[str, Any]]:
        """Return the tools that the server offers now, by name."""
        assert self._connection is not None
        self._lists_read = self._connection.lists_read
        return {str(entry.get("name")): entry for entry in self._connection.tools}

    def _take_tools(self, task: str) -> None:
        """Create our tools from those that the server offers now. Raises: TaskError for a tool that cannot be used."""
        chosen = {
            name: entry
            for name, entry in self._offered().items()
            if self._tool_names is None or name in self._tool_names or name in self._final_names
        }
        tools = [self._tool(name, entry, task) for name, entry in chosen.items()]
        if not self._final_names:
            if "answer" in chosen:
                raise TaskError(
                    f"{task}: the server has a tool named 'answer', which is also the name of the tool by which the "
                    "agent ends an episode. Leave it out of parameters['tools'], or name the server's tools that end "
                    "an episode in parameters['final']."
                )
            about = "Hand in the answer. Ends the task."
            size = {"max_output_chars": self._max_end_chars}
            tools.append(Tool.from_schema("answer", about, ANSWER_SCHEMA, self._answer, final=True, **size))
        self.tools = {}
        self.add_tools(*tools)

    def _tool(self, name: str, entry: Mapping[str, Any], task: str) -> Tool:
        is_final = name in self._final_names
        schema = entry.get("inputSchema")
        try:
            return Tool.from_schema(
                name,
                str(entry.get("description") or entry.get("title") or name),
                {"properties": {}, **schema} if isinstance(schema, Mapping) else {"properties": schema},
                partial(self._call_finally if is_final else self._call, name),
                final=is_final,
                parallel=False,  # one connection, so that the time for which a call waits for others does not count
                timeout_s=2 * self._call_s + 60.0,  # the bridge's own limit is reached before this one
                **({"max_output_chars": self._max_end_chars} if is_final else {}),
            )
        except ToolDefinitionError as error:
            raise TaskError(
                f"{task}: the server's tool {name!r} cannot be used: {error} Leave it out of parameters['tools']."
            ) from error

    @property
    def _max_end_chars(self) -> int:
        """The maximum length of the last result, so that no end state is cut: JSON may need six characters for one."""
        return 6 * MAX_STATE_CHARS * (len(self._state_calls) + 1) + 1_000

    async def _call(self, name: str, arguments: dict[str, Any]) -> Content:
        assert self._connection is not None
        result = await self._connection.call(name, arguments)
        if self._connection.lists_read != self._lists_read:
            try:
                self._take_tools("The server has changed its tools")
            except TaskError as error:  # names the tool as the agent called it
                raise ToolError(str(error)) from None
        meta = result.get("_meta")
        if isinstance(meta, Mapping) and meta.get(mcp.OVER) is True:
            self.end_episode()
        return mcp.content_from_mcp(result)

    async def _call_finally(self, name: str, arguments: dict[str, Any]) -> str:
        return await self._end(mcp.text_of(await self._call(name, arguments)))

    async def _answer(self, arguments: dict[str, Any]) -> str:
        return await self._end("")

    async def _end(self, text: str) -> str:
        """Return the result of a call that ends the episode: the end state, for the judge."""
        assert self._connection is not None
        state: list[str | None] = []
        for name, arguments in self._state_calls:
            try:
                state.append(
                    mcp.text_of(mcp.content_from_mcp(await self._connection.call(name, arguments)))[:MAX_STATE_CHARS]
                )
            except ToolError:
                state.append(None)
        return TASK_OVER + json.dumps({"result": text[:MAX_STATE_CHARS], "state": state}, ensure_ascii=False)

    async def close(self) -> None:
        self._connection = None  # the connection ends with its sandbox
        await super().close()


def _texts_of(files: Any, task: str) -> dict[str, str]:
    """Return the files of a task. Raises: TaskError for a file that is neither text nor a text asset."""
    try:
        return {str(path): _text_of_file(given) for path, given in files.items()}
    except (AttributeError, TypeError, KeyError, UnicodeDecodeError) as error:
        raise TaskError(
            f"{task}: parameters['files'] must map each path to text, or to {{\"asset\": name}}, but it is "
            f"{files!r:.200}. {error}"
        ) from error


def _text_of_file(given: Any) -> str:
    if isinstance(given, str):
        return given
    content: bytes = load("assets", given["asset"])()
    return content.decode()


def register_mcp(
    name: str, command: Collection[str] = (), *, sandbox: SandboxSpec | None = None, **options: Any
) -> str:
    """Offer an MCP server as an environment, for this process: `register_mcp("me/notes-v1", ["python3", "notes.py"])`.

    Args:
        name: `namespace/name-vN`.
        command: the command of a server that is a program. `options`: the other fields of `McpServer`, such as `url` or
            `files`.
        sandbox: the sandbox of the server, or of the connection to a URL. By default it has the host's programs and
            512 MiB, without a network; for a URL, only the URL's host can be reached.
    Returns: the name.
    Raises: TaskError for a server that cannot be started or reached; TypeError for an option that `McpServer` lacks;
        DuplicateNameError; ValueError for a name of another form.
    """
    register(name, environment_class(name, command, sandbox=sandbox, **options))
    return name


def environment_class(
    name: str, command: Collection[str] = (), *, sandbox: SandboxSpec | None = None, **options: Any
) -> type[McpEnvironment]:
    """Return the environment that `register_mcp` registers. Raises: TaskError; TypeError."""
    server = McpServer(command=tuple(command), **options)
    spec = sandbox or SandboxSpec(network=(server.origin,) if server.url else False)
    body = {"server": server, "sandbox": spec, "__doc__": f"The tools of the MCP server {server.location!r}."}
    return type(re.sub(r"\W", "_", name), (McpEnvironment,), body)
