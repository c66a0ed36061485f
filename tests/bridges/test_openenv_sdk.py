"""The published clients and servers of OpenEnv: their interpreter is in an environment of its own, as in CI."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentgym import Call, Task, load_task_set, registry
from agentgym.bridges.openenv import register_openenv
from agentgym.messages import ResultStatus
from agentgym.registry import make

SERVER = """
import sys
from fastmcp import FastMCP
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation


class Echoed(Observation):
    text: str


class Say(Action):
    text: str


class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, greeting="Hi", **options):
        self.said, self.seed = 0, seed
        return Echoed(text=f"{greeting} {seed}")

    def step(self, action, timeout_s=None, **options):
        if action.text == "break":
            raise ValueError("out of luck")
        self.said += 1
        return Echoed(text=action.text, reward=0.5, done=self.said == 2)

    @property
    def state(self):
        return State(step_count=self.said)


class Counter(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server, self.count = FastMCP("counter"), 0

        @server.tool
        def add(by: int) -> int:
            'Add to the counter.'
            self.count += by
            return self.count

        super().__init__(server)

    def reset(self, seed=None, episode_id=None, **options):
        self.count = 0
        return Observation(metadata={"seed": seed})

    def _step_impl(self, action, timeout_s=None, **options):
        raise ValueError("tool calls alone")

    async def step_async(self, action, timeout_s=None, **options):
        observation = await super().step_async(action, timeout_s=timeout_s, **options)
        if isinstance(observation, CallToolObservation):
            observation.done, observation.reward = self.count >= 5, float(self.count >= 5)
        return observation

    @property
    def state(self):
        return State()


which = (Counter, CallToolAction, CallToolObservation) if sys.argv[1] == "counter" else (Echo, Say, Echoed)
import uvicorn

uvicorn.run(create_fastapi_app(*which, max_concurrent_envs=4), port=int(sys.argv[2]), log_level="error")
"""

CLIENT = """
import asyncio, json, sys
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

url, secret = sys.argv[1], int(sys.argv[2])


async def play():
    seen = {}
    async with GenericEnvClient(base_url=url) as first, GenericEnvClient(base_url=url) as second:
        begun = [await first.reset(index=0), await second.reset(index=1)]
        seen["tasks"] = [result.observation["task_id"] for result in begun]
        result = await first.step({"type": "call_tool", "tool_name": "guess", "arguments": {"number": secret}})
        seen["won"] = [result.reward, result.done, result.metadata["outcome"]["success"]]
        seen["state"] = (await second.state())["step_count"]
    async with MCPToolClient(base_url=url) as client:
        await client.reset(index=0)
        seen["tools"] = [tool.name for tool in await client.list_tools()]
        seen["called"] = await client.call_tool("guess", number=secret + 100)
        observation = (await client.step(CallToolAction(tool_name="guess", arguments={"number": "x"}))).observation
        seen["wrong"] = observation.error.error_type.value
        observation = (await client.step(CallToolAction(tool_name="nosuch"))).observation
        seen["unknown"] = observation.error.error_type.value
        result = await client.step(CallToolAction(tool_name="guess", arguments={"number": secret}))
        seen["won by tool"] = [result.reward, result.done, result.observation.result["data"]]
    print(json.dumps(seen))


asyncio.run(play())
"""


@pytest.fixture(scope="module")
def python() -> str:
    if not (interpreter := os.environ.get("AGENTGYM_OPENENV_PYTHON")):
        pytest.skip("AGENTGYM_OPENENV_PYTHON names no interpreter that has openenv")
    return interpreter


@contextmanager
def running(*command: str) -> Iterator[str]:
    """A server that listens at the port which ends its command."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with subprocess.Popen([*command, str(port)], stdout=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 120
        while not listens(port):
            assert server.poll() is None, "the server did not start"
            assert time.monotonic() < deadline
            time.sleep(0.1)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_their_clients_play_our_tasks_and_their_validator_passes(python, tmp_path):
    task = load_task_set("text/number-guess-v1")["train"][0]
    ours = [sys.executable, "-m", "agentgym", "serve", "openenv", "text/number-guess-v1", "--manifest", str(tmp_path)]
    with running(*ours, "--port") as url:
        done = subprocess.run(
            [python, "-c", CLIENT, url, str(task.truth["secret"])], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        validator = os.path.join(os.path.dirname(python), "openenv")
        report = subprocess.run([validator, "validate", "--url", url], capture_output=True, text=True, timeout=120)
    assert seen["tasks"] == ["train/0000", "train/0001"]
    assert seen["won"] == [1.0, True, 1.0]
    assert seen["state"] == 0
    assert seen["tools"] == ["guess"]
    assert "left" in seen["called"]
    assert (seen["wrong"], seen["unknown"]) == ("invalid_args", "tool_not_found")
    assert seen["won by tool"][:2] == [1.0, True]
    assert "Verdict: PASS" in report.stdout, report.stdout + report.stderr
    assert "name: text-number-guess-v1\n" in (tmp_path / "openenv.yaml").read_text()


@pytest.fixture(autouse=True)
def _own_names(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {kind: {} for kind in registry.KINDS})


async def test_tools_of_their_server_are_ours(python):
    with running(python, "-c", SERVER, "counter") as url:
        name = register_openenv("test/counter-v1", url)
        environment, other = make(name), make(name)
        for each in (environment, other):
            await each.reset(Task("t", name, "Count to five."), seed=1)
        assert [*environment.tools] == ["add"]
        assert environment.tools["add"].parameters["required"] == ["by"]
        assert (await environment.call(Call("add", {"by": 3}))).content == "3"
        assert (await other.call(Call("add", {"by": 1}))).content == "1"  # a session of its own
        wrong = await environment.call(Call("add", {"by": "x"}))
        assert (wrong.status, "valid integer" in wrong.content) == (ResultStatus.TOOL_ERROR, True)
        assert (await environment.call(Call("nosuch"))).status is ResultStatus.UNKNOWN_TOOL
        assert not environment.ended
        assert (await environment.call(Call("add", {"by": 2}))).content == "5"
        assert environment.ended
        assert (await environment.verdict())[0] == {"success": 1.0, "return": 1.0}
        for each in (environment, other):
            await each.close()


async def test_actions_of_their_server_are_a_tool(python):
    with running(python, "-c", SERVER, "echo") as url:
        environment = make(name := register_openenv("test/echo-v1", url))
        task = Task("t", name, "Talk.", parameters={"seed": 7, "reset": {"greeting": "Hello"}})
        opening = await environment.reset(task, seed=1)
        assert [message.text for message in opening] == ["Talk.", "Hello 7"]
        assert (await environment.call(Call("act", {"text": "one"}))).content == "one"
        assert (await environment.call(Call("act", {"words": 1}))).status is ResultStatus.WRONG_ARGUMENTS
        broken = await environment.call(Call("act", {"text": "break"}))
        assert (broken.status, broken.content) == (ResultStatus.TOOL_ERROR, "out of luck")
        await environment.call(Call("act", {"text": "two"}))
        assert environment.ended
        assert environment.reward.turn(None, None) == {"reward": 1.0}
        await environment.close()
