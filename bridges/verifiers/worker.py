"""Runs an environment of verifiers for an agentgym process, in the Python environment that has verifiers.

This program imports nothing of agentgym. It reads lines of JSON from standard input, writes lines of JSON to standard
output, and ends when its input ends. All other output goes to standard error. A model call of an episode becomes a
line, and the line that answers it becomes the model's message.

    {"op": "open", "config": {...}, "most": 200}   -> {"opened": [{"key", "messages"}, ...]}
    {"op": "begin", "episode": "7", "index": 3, "key": "..."}
    {"op": "say", "episode": "7", "message": {"content": "...", "tool_calls": [...]}}
    {"op": "end", "episode": "7"}                  judged as it is
                              -> {"episode": "7", "messages": [new ones], "tools": [...]}     the model is asked
                              -> {"episode": "7", "over": {"rewards", "metrics", "stop"}} or {..., "failed": "why"}

Source: `verifiers.v1` of verifiers 0.4.0.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import types
from contextlib import AsyncExitStack
from typing import Any

import httpx
import verifiers.v1 as vf
from aiohttp import web
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp
from verifiers.v1.utils.loaders import default_harness_id, env_config_type

LOOP = "agentgym_loop"
MAX_LINE_BYTES = 16 * 2**20


class LoopHarnessConfig(vf.HarnessConfig):
    """Configuration without options."""


class LoopHarness(vf.Harness[LoopHarnessConfig]):
    """The plain loop, in this process: ask the model and run its calls on the tool servers until it makes none."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: dict[str, str], data: Any
    ) -> Any:
        """Run a segment of the conversation. A model call that is refused ends it: the rollout is over."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system is not None else []
        messages += [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _native(prompt or [])
        servers = {"mcpServers": {name: {"url": url} for name, url in mcp_urls.items()}}
        async with AsyncExitStack() as stack:
            tools, dispatch, connections = await connect_mcp(servers, stack)
            client = await stack.enter_async_context(httpx.AsyncClient(timeout=None))
            while True:
                body = {"model": ctx.model, "messages": messages} | ({"tools": tools} if tools else {})
                headers = {"Authorization": f"Bearer {secret}"}
                answer = await client.post(f"{endpoint}/chat/completions", json=body, headers=headers)
                if answer.status_code != 200:
                    return vf.ProgramResult(exit_code=1, stdout="", stderr=answer.text[:2000])
                message = answer.json()["choices"][0]["message"]
                messages.append(message)
                if not message.get("tool_calls"):
                    return vf.ProgramResult(exit_code=0, stdout="", stderr="")
                for call in message["tool_calls"]:
                    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
                    content = f"There is no tool {name!r}."
                    if name in dispatch:
                        content = await call_mcp(connections, dispatch, name, arguments)
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


def _native(messages: list[Any]) -> list[dict[str, Any]]:
    """Convert verifiers' typed messages to messages of a chat API."""
    rows = [message.model_dump(exclude_none=True) for message in messages]
    for row in rows:
        row.pop("provider_state", None)
        row["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in row.pop("tool_calls", None) or ()
        ]
        if not row["tool_calls"]:
            del row["tool_calls"]
    return rows


class OpenEpisode:
    """One episode, whose model calls wait here for answers."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.seen: list[dict[str, Any]] = []
        self.is_left = False
        self.trace: Any = None


class VerifiersRunner:
    """One environment and its open episodes."""

    def __init__(self, output: Any) -> None:
        self._output = output
        self._episodes: dict[str, OpenEpisode] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()
        self._tasks: list[Any] = []
        self._env: Any = None
        self._port = 0

    def write(self, line: dict[str, Any]) -> None:
        self._output.write(json.dumps(line).encode() + b"\n")
        self._output.flush()

    async def open(self, config: dict[str, Any], most: int) -> None:
        app = web.Application(client_max_size=MAX_LINE_BYTES)
        app.router.add_post("/{episode}/v1/chat/completions", self._complete)
        runner = web.AppRunner(app)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self._port = site._server.sockets[0].getsockname()[1]
        self._env = vf.load_environment(_config(config))
        await self._stack.enter_async_context(self._env.serving())
        self._tasks = list(self._env.taskset.take(most))
        self.write({"opened": [{"key": task.hash, "messages": _opening(task.data)} for task in self._tasks]})

    async def play(self, name: str, index: int, key: str) -> None:
        episode = self._episodes[name] = OpenEpisode()
        try:
            if not (0 <= index < len(self._tasks) and self._tasks[index].hash == key):
                raise ValueError(
                    f"task {index} of the taskset is not the one that was listed: the taskset has changed since then"
                )
            client = vf.EvalClientConfig(
                base_url=f"http://127.0.0.1:{self._port}/{name}/v1", api_key_var="AGENTGYM_NONE"
            )
            context = vf.ModelContext(model="agentgym", client=client)

            def minted(trace: Any) -> None:
                episode.trace = trace

            done = await self._env.run_episode(self._tasks[index], context, on_trace=minted)
            self.write({"episode": name} | _outcome(done))
        except Exception as error:  # noqa: BLE001  any exception of an environment is the answer
            self.write({"episode": name, "failed": f"{type(error).__name__}: {error}"})
        finally:
            del self._episodes[name]

    async def _complete(self, request: web.Request) -> web.Response:
        """Answer an episode's model call with the message that the agentgym process sends."""
        name = request.match_info["episode"]
        body = await request.json()
        episode, messages = self._episodes.get(name), body["messages"]
        if episode is None or episode.is_left or body.get("stream"):
            return _refusal("The agent has left." if not body.get("stream") else "Answers are not streamed here.")
        known = len(episode.seen)
        if [message["role"] for message in messages[:known]] != [message["role"] for message in episode.seen]:
            return _refusal("The harness writes its history anew, which is not supported.")
        self.write({"episode": name, "messages": messages[known:], "tools": body.get("tools") or []})
        if (message := await episode.answers.get()) is None:
            return _refusal("The agent has left.")
        episode.seen = [*messages, message]
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
        }
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        answer = {"id": f"{name}-{known}", "object": "chat.completion", "created": 0, "model": "agentgym"}
        return web.json_response({**answer, "choices": [choice], "usage": usage})

    async def take(self, line: dict[str, Any]) -> None:
        """Carry out the request in a line."""
        if line["op"] == "open":
            await self.open(line["config"], line["most"])
        elif line["op"] == "begin":
            playing = asyncio.create_task(self.play(line["episode"], line["index"], line["key"]))
            self._running.add(playing)
            playing.add_done_callback(self._running.discard)
        elif (episode := self._episodes.get(line["episode"])) is not None:
            if line["op"] == "say":
                episode.answers.put_nowait({"role": "assistant", **line["message"]})
                return
            episode.is_left = True
            if episode.trace is not None:
                episode.trace.stop("agent_left")
            episode.answers.put_nowait(None)

    async def close(self) -> None:
        for playing in list(self._running):
            playing.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._stack.aclose()


def _config(given: dict[str, Any]) -> Any:
    """Return the environment's config, in which every seat without its own harness gets the loop in this process."""
    taskset, env = given["taskset"], given.get("env", {})
    kind = env_config_type(taskset["id"], env.get("id", ""))
    seats: dict[str, Any] = {}
    for name in agent_config_fields(kind.model_construct()):
        seats[name] = {"runtime": {"type": "subprocess"}}
        if default_harness_id(taskset["id"]) == "bash":
            seats[name]["harness"] = {"id": LOOP}
        seats[name] |= env.get(name, {})
    return kind.model_validate({**env, **seats, "taskset": taskset})


def _opening(data: Any) -> list[dict[str, Any]]:
    system = [{"role": "system", "content": data.system_prompt}] if data.system_prompt is not None else []
    if data.prompt is None or isinstance(data.prompt, str):
        return [*system, {"role": "user", "content": data.prompt or ""}]
    return [*system, *_native(data.prompt)]


def _outcome(episode: Any) -> dict[str, Any]:
    if len(episode.traces) != 1:
        return {"failed": f"{len(episode.traces)} agents played: only environments of one agent can be used"}
    [trace] = episode.traces
    if not episode.ok:
        errors = [*episode.errors, *trace.errors]
        return {"failed": "; ".join(f"{error.type}: {error.message}" for error in errors) or "verifiers gave no reason"}
    rewards = {name: [reward.score, reward.weight] for name, reward in trace.rewards.items() if reward is not None}
    metrics = {name: value for name, value in trace.metrics.items() if value is not None}
    return {"over": {"rewards": rewards, "metrics": metrics, "stop": trace.stop_condition}}


def _refusal(text: str) -> web.Response:
    return web.json_response({"error": {"message": text, "type": "invalid_request_error"}}, status=400)


async def main() -> None:
    """Carry out the requests on standard input until it ends."""
    module = types.ModuleType(LOOP)
    module.LoopHarness, module.__all__ = LoopHarness, ["LoopHarness"]  # type: ignore[attr-defined]
    LoopHarness.__module__ = LOOP
    sys.modules[LOOP] = module
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        worker = VerifiersRunner(output)
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        try:
            while line := await reader.readline():
                try:
                    await worker.take(json.loads(line))
                except Exception as error:  # noqa: BLE001  the agentgym process reports it
                    worker.write({"failed": f"{type(error).__name__}: {error}"})
        finally:
            await worker.close()


if __name__ == "__main__":
    asyncio.run(main())
