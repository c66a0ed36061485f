"""Servers of the published SDK, of both its lines: their interpreters are in environments of their own, as in CI."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from agentgym import Call, Task, close_backends, load_task_set, make, registry
from agentgym.bridges.mcp import register_mcp
from agentgym.bridges.mcp.server import BRIDGE

SERVER = """
import asyncio, sys
from mcp.server.streamable_http import EventMessage, EventStore

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as MCPServer


class Events(EventStore):
    'Every event in its order, by a number as id.'

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        stream = self.events[int(last_event_id) - 1][0]
        for number, (other, message) in enumerate(self.events, start=1):
            if other == stream and number > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


port = int(sys.argv[1]) if len(sys.argv) > 1 else None
is_first = MCPServer.__name__ == "FastMCP"
options = {"port": port, "event_store": Events(), "retry_interval": 100} if port else {}
server = MCPServer("counter", instructions="Count.", **(options if is_first else {}))
count = 0


@server.tool()
def add(by: int) -> int:
    'Add to the counter.'
    global count
    count += by
    return count


@server.tool()
def fail() -> str:
    'Fail.'
    raise ValueError("It fails.")


async def add_later(by: int, context: Context) -> int:
    'Close the stream, then add to the counter.'
    await context.close_sse_stream()
    await asyncio.sleep(0.5)
    return add(by)


if port is None:
    server.run("stdio")
else:
    server.tool()(add_later)
    server.run("streamable-http", **({} if is_first else options))
"""
"""A counter behind the SDK of either line, on standard streams or, given a port, over HTTP."""

CLIENT = """
import asyncio, json, sys
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

async def play(session):
    tools = [tool.name for tool in (await session.list_tools()).tools]
    results = [await session.call_tool(*call) for call in json.loads(sys.argv[2])]
    print(json.dumps([tools, [result.content[0].text for result in results]]))

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["-m", "agentgym", "serve", "mcp", sys.argv[3]])
    try:
        from mcp import Client
    except ImportError:
        from mcp import ClientSession
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            print((await session.initialize()).instructions, file=sys.stderr)
            await play(session)
    else:
        async with Client(stdio_client(server)) as session:
            await play(session)

asyncio.run(main())
"""
"""A client of the SDK of either line, which plays an episode of ours that it starts itself."""

ADD = [{"by": 3}, {"by": 4}]
BOTH_LINES = pytest.mark.parametrize(
    ("line", "era", "protocol"),
    [("1", "auto", "2025-11-25"), ("2", "auto", "2026-07-28"), ("2", "sessions", "2025-11-25")],
)


def interpreter(line: str) -> str:
    if not (python := os.environ.get(f"AGENTGYM_MCP_{line}_PYTHON")):
        pytest.skip(f"AGENTGYM_MCP_{line}_PYTHON names no interpreter that has mcp {line}.x")
    return python


@BOTH_LINES
def test_a_server_on_standard_streams(line, era, protocol, tmp_path):
    """The bridge itself, in this host's interpreter: a sandbox has no third-party packages."""
    bridge = tmp_path / "bridge.py"
    bridge.write_text(BRIDGE.program("serve"))
    start = {"do": "start", "command": [interpreter(line), "-c", SERVER], "url": "", "headers": {}, "environment": {}}
    calls = [{"do": "call", "name": "add", "arguments": arguments} for arguments in ADD]
    calls += [{"do": "call", "name": name, "arguments": {}} for name in ("fail", "nosuch")]
    requests = [{**request, "timeout_s": 60} for request in ({**start, "era": era}, *calls)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", bridge],
        input="".join(json.dumps(request) + "\n" for request in requests),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    started, *results = (json.loads(line) for line in done.stdout.splitlines())
    assert started["ok"] == {"protocol": protocol, "instructions": "Count."}
    assert [tool["name"] for tool in started["tools"]] == ["add", "fail"]
    assert [result["ok"]["content"][0]["text"] for result in results[:2]] == ["3", "7"]
    assert all(result["ok"]["isError"] for result in results[2:])


@pytest.fixture
def address(line) -> Iterator[str]:
    """Where a server of the SDK listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with subprocess.Popen([interpreter(line), "-c", SERVER, str(port)], stderr=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 60
        while not listens(port):
            assert server.poll() is None, "the server did not start"
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
        server.kill()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@BOTH_LINES
@pytest.mark.needs_namespaces
async def test_a_server_over_http_played_from_a_sandbox(address, era, protocol, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {kind: {} for kind in registry.KINDS})
    environment = make(register_mcp("test/sdk-v1", url=address, era=era))
    await environment.reset(Task("t", "test/sdk-v1", "Count."), seed=0)
    assert [(await environment.call(Call("add", arguments))).content for arguments in ADD] == ["3", "7"]
    assert environment._connection.protocol == protocol
    failed = await environment.call(Call("fail", {}))
    assert not failed.ok
    if protocol < "2026":  # a server without sessions cannot go on in another stream
        assert (await environment.call(Call("add_later", {"by": 5}))).content == "12"
    await environment.close()
    await close_backends()


CLIENT_OVER_HTTP = """
import asyncio, json, sys, urllib.request

async def play(session):
    tools = [tool.name for tool in (await session.list_tools()).tools]
    results = [await session.call_tool(*call) for call in json.loads(sys.argv[2])]
    print(json.dumps([tools, [result.content[0].text for result in results]]))

async def main():
    address, task = sys.argv[1], sys.argv[3]
    try:
        from mcp import Client
    except ImportError:
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client
        async with streamable_http_client(f"{address}/tasks/{task}/mcp") as (read, write, *_):
            async with ClientSession(read, write) as session:
                await session.initialize()
                await play(session)
    else:
        body = json.dumps({"task": task}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{address}/episodes", body, method="POST")) as reply:
            url = json.load(reply)["url"]
        async with Client(url) as session:
            await play(session)

asyncio.run(main())
"""
"""The same over HTTP: with sessions in the first line, and an episode's URL in the second."""


@pytest.mark.parametrize("line", ["1", "2"])
def test_a_client_of_the_sdk_plays_an_episode_of_ours_over_http(line):
    task_set = load_task_set("text/number-guess-v1")
    task = task_set["train"][0]
    calls = [("guess", {"number": 3}), ("guess", {"number": task.truth["secret"]})]
    python = interpreter(line)
    serve = [sys.executable, "-m", "agentgym", "serve", "mcp-http", f"{task_set.name}:train", "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = re.search(r"http://\S+", server.stdout.readline())[0]
            command = [python, "-c", CLIENT_OVER_HTTP, address, json.dumps(calls), task.id]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            server.send_signal(signal.SIGINT)
            errors = server.communicate(timeout=60)[1]
        finally:
            server.kill()
    assert done.returncode == 0, done.stderr
    tools, results = json.loads(done.stdout)
    assert (tools, len(results)) == (["guess"], 2)
    assert "after 2 turns: success +1" in errors


@pytest.mark.parametrize("line", ["1", "2"])
def test_a_client_of_the_sdk_plays_an_episode_of_ours(line):
    task_set = load_task_set("text/number-guess-v1")
    task = task_set["train"][0]
    calls = [("guess", {"number": 3}), ("guess", {"number": task.truth["secret"]})]
    command = [interpreter(line), "-c", CLIENT, sys.executable, json.dumps(calls), f"{task_set.name}:train"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    tools, results = json.loads(done.stdout)
    assert tools == ["guess"]
    assert len(results) == 2
    assert "after 2 turns: success +1" in done.stderr
