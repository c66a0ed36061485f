"""MCP servers as environments: what a server may do wrong, what a task may name wrong, and how an episode is judged."""

from __future__ import annotations

import json
import threading
from copy import deepcopy
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentgym import (
    Call,
    EpisodeManager,
    Message,
    SandboxSpec,
    ScriptedPolicy,
    Task,
    load,
    make,
    registry,
)
from agentgym.bridges.mcp import McpServer, register_mcp
from agentgym.bridges.mcp.server import McpConnection
from agentgym.errors import DuplicateNameError, JudgeError, SandboxUnavailable, TaskError, ToolError
from agentgym.messages import ImagePart, ResultStatus
from agentgym.rewards.mcp import McpReward, _equal

SOURCE = Path(__file__).with_name("mcp_servers.py").read_text()
ECHO = Call("echo", {"text": "hi"})


@pytest.fixture(autouse=True)
def registered_by_this_test(monkeypatch):
    monkeypatch.setattr(registry, "_registered", deepcopy({kind: {} for kind in registry.KINDS}))


def task(mode: str = "good", *, server: dict | None = None, **parameters) -> Task:
    options = {"command": ["python3", "server.py", mode], "files": {"server.py": SOURCE}, **(server or {})}
    return Task("t", "agentgym/mcp-v1", "Speak.", parameters={"server": options, **parameters})


async def answers(task: Task, *calls: Call):
    """The results of calls in a new environment, and its tools afterwards."""
    environment = make("agentgym/mcp-v1")
    try:
        await environment.reset(task, seed=0)
        return [await environment.call(call) for call in calls], list(environment.tools)
    finally:
        await environment.close()


@pytest.mark.needs_namespaces
async def test_a_server_greets_offers_its_tools_page_by_page_and_keeps_its_state_within_an_episode():
    environment = make("agentgym/mcp-v1")
    for _ in range(2):  # a reset starts it anew
        opening = await environment.reset(task("chats"), seed=0)
        assert [(m.role, m.text) for m in opening] == [("system", "Speak up."), ("user", "Speak.")]
        assert [(await environment.call(ECHO)).content for _ in range(2)] == ["hi 1", "hi 2"]
    wrong = await environment.call(Call("echo", {"text": 3}))
    assert wrong.status is ResultStatus.WRONG_ARGUMENTS
    await environment.close()


@pytest.mark.needs_namespaces
@pytest.mark.parametrize(
    ("mode", "message", "then"),
    [
        ("ends", "The server ended with exit code 3. It last wrote: out of luck", "exit code 3"),
        ("is silent", "The server did not answer within 0.5 s.", "did not answer within 0.5 s"),
        ("never stops", "The server sent 10000 lines, but none of them was the answer.", "10000 lines"),
        ("writes a line without an end", "The server sent a line of more than 8388608 bytes.", "8388608 bytes"),
        (
            "kills what connects it",
            "The server has ended, and with it the process that connects it to agentgym.",
            "has ended",
        ),
    ],
)
async def test_what_a_server_does_after_a_call_is_a_result(mode, message, then):
    call_s = 0.5 if mode == "is silent" else 60.0
    (first, second), _ = await answers(task(mode, server={"call_s": call_s}), ECHO, ECHO)
    assert (first.status, first.content) == (ResultStatus.TOOL_ERROR, message)
    assert second.status is ResultStatus.TOOL_ERROR
    assert then in second.content


@pytest.mark.needs_namespaces
async def test_nobody_samples_for_a_server_and_it_goes_on():
    (result,), _ = await answers(task("asks for a model"), ECHO)
    assert result.content == "No one answers sampling/createMessage here."


@pytest.mark.needs_namespaces
async def test_a_list_of_tools_that_changes_is_read_again():
    (first, second), tools = await answers(task("grows"), ECHO, Call("more", {}))
    assert first.ok
    assert tools == ["echo", "more", "answer"]
    assert second.status is not ResultStatus.UNKNOWN_TOOL


@pytest.mark.parametrize("line", [[], 3, {}, {"ok": 3}, {"ok": {}, "tools": [1]}, {"tools": []}])
async def test_what_is_no_reply_of_the_bridge_is_a_result(line):
    """No server has managed to write one: the bridge's output is a socket. If one does, no episode is thrown away."""

    class Line:
        waited_s = 0.0

        async def request(self, message: object, *, timeout_s: float) -> object:
            return line

    connection = McpConnection(McpServer(("x",)), sandbox=None, channel=Line())
    for _ in range(2):
        with pytest.raises(ToolError, match="The server has damaged the process that connects it"):
            await connection.call("echo", {})


@pytest.mark.needs_namespaces
async def test_tools_that_a_call_breaks_are_a_result_of_the_call():
    (first, second), tools = await answers(task("breaks its tools"), ECHO, ECHO)
    assert (first.status, second.status) == (ResultStatus.TOOL_ERROR, ResultStatus.TOOL_ERROR)
    assert "The server has changed its tools: the server's tool 'more' cannot be used" in first.content
    assert tools == ["echo", "answer"]


@pytest.mark.needs_namespaces
async def test_a_file_that_cannot_be_written_is_named():
    with pytest.raises(TaskError, match="The file '/proc/x' of an MCP server cannot be written"):
        await answers(task(files={"/proc/x": "text"}))


@pytest.mark.needs_namespaces
async def test_pictures_stay_pictures_and_other_media_are_named():
    (result,), _ = await answers(task("shows"), ECHO)
    texts = [part.text for part in result.content if not isinstance(part, ImagePart)]
    assert texts == ["a picture:", "[audio, audio/wav]", "file:///a:\ninside", "[b: file:///b]"]
    assert [part.data for part in result.content if isinstance(part, ImagePart)] == ["aGk="]


@pytest.mark.needs_namespaces
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            task("does not start"),
            SandboxUnavailable,
            "cannot be started: The server ended with exit code 1.*no such lib",
        ),
        (task("never greets", server={"start_s": 0.4}), SandboxUnavailable, "did not answer within 0.4 s"),
        (task(server={"command": ["nosuch"]}), SandboxUnavailable, "'nosuch' cannot be started: No such file"),
        (task("lies about its arguments"), TaskError, "'echo' cannot be used.*Leave it out of parameters"),
        (task("has an answer of its own"), TaskError, "also the name of the tool by which the"),
        (task(tools=["cut"]), TaskError, "cut, which the server does not offer. It offers echo"),
        (task(final=["end"]), TaskError, "end, which the server does not offer. It offers echo"),
        (task(state=[{"tool": "dump"}]), TaskError, "dump, which the server does not offer. It offers echo"),
        (task(server={"era": "stateless"}), SandboxUnavailable, "does not support MCP 2026-07-28: Method not found"),
    ],
)
async def test_what_cannot_be_played_is_named_at_the_reset(given, error, message):
    with pytest.raises(error, match=message):
        await answers(given)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, r"t has no parameters\['server'\]"),
        ({"server": ["python3"]}, r"parameters\['server'\] must be .* not \['python3'\]"),
        ({"server": {"command": "python3"}}, r"such as \{\"command\": \[...\]\}"),
        ({"server": {"program": ["x"]}}, "unexpected keyword argument 'program'"),
        ({"server": {}}, "t: An MCP server needs either a command or a url"),
        ({"server": {"url": "https://example.org/mcp"}}, "Register the server: agentgym.bridges.mcp.register_mcp"),
        ({"server": {"command": ["x"], "era": "new"}}, "era = 'new' of an MCP server"),
        (
            {"server": {"command": ["x"]}, "tools": "echo"},
            r"parameters\['tools'\] must be a list of names of tools, not 'echo'",
        ),
        ({"server": {"command": ["x"]}, "state": ["dump"]}, r"parameters\['state'\] must be .* not \['dump'\]"),
        ({"server": {"command": ["x"]}, "files": {"a": 3}}, r"parameters\['files'\] must map .* it is \{'a': 3\}"),
    ],
)
async def test_wrong_parameters_are_named_before_a_sandbox_is_made(parameters, message):
    environment = load("environments", "agentgym/mcp-v1")()  # has no backend
    with pytest.raises(TaskError, match=message):
        await environment.reset(Task("t", "agentgym/mcp-v1", "Speak.", parameters=parameters), seed=0)


@pytest.mark.needs_namespaces
@pytest.mark.parametrize(
    ("parameters", "script", "truth", "checks"),
    [
        ({}, [ECHO, Call("answer", {"text": " Hi  1 "})], {"answer": ["hello", "hi 1"]}, [True]),
        ({}, [Call("answer", {"text": "hi"})], {"answer": "hi 1"}, [False]),
        ({"final": ["echo"]}, [ECHO], {"state": ["hi 2"]}, [True]),
        ({"final": ["echo"]}, [ECHO], {"state": ["hi 1"]}, [False]),
        ({}, [ECHO, Call("answer", {"text": "hi"})], {"state": ["hi 2"], "answer": "no"}, [True, False]),
    ],
)
async def test_the_end_state_is_what_the_servers_own_tools_say_of_it(parameters, script, truth, checks):
    state = [{"tool": "echo", "arguments": {"text": "hi"}}] if "state" in truth else []
    given = task(**parameters, state=state)
    given = Task(given.id, given.environment, given.prompt, parameters=given.parameters, truth=truth)
    messages = [Message("assistant", "", (call,)) for call in script]
    (trajectory,) = await EpisodeManager(lambda task: ScriptedPolicy(messages)).collect([given])
    outcome = trajectory.outcome
    assert outcome == {"success": float(all(checks)), "checks_passed": sum(checks) / len(checks)}


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("size", [16_000, 20_000, 300_000])
@pytest.mark.parametrize("parameters", [{}, {"final": ["echo"]}])
async def test_an_end_state_is_never_cut(parameters, size):
    texts = [letter * size for letter in ("x", "\u00fc", '"')]
    state = [{"tool": "echo", "arguments": {"text": text}} for text in texts]
    given = task(**parameters, state=state)
    first = ECHO if parameters else Call("answer", {"text": "hi"})
    count = 2 if parameters else 1
    expected = {"state": [f"{text} {count + n}" for n, text in enumerate(texts)]}
    policy = ScriptedPolicy([Message("assistant", "", (first,))])
    (episode,) = await EpisodeManager(policy).collect([replace(given, truth=expected)])
    assert episode.outcome == {"success": 1.0, "checks_passed": 1.0}, episode.error


def test_a_truth_that_says_nothing_is_no_verdict():
    class Episode:
        task = Task("t", "agentgym/mcp-v1", "Speak.", parameters={"state": []}, truth={})
        turns = ()

    with pytest.raises(JudgeError, match="neither `state` nor `answer`"):
        McpReward().outcome(Episode)
    Episode.task = Task("t", "agentgym/mcp-v1", "Speak.", parameters={"state": []}, truth={"state": ["x"]})
    with pytest.raises(JudgeError, match="must have one result for each of the 0 calls"):
        McpReward().outcome(Episode)


def test_a_registered_server_has_its_place_and_may_reach_its_host_alone():
    name = register_mcp("test/far-v1", url="https://example.org/mcp", headers={"Authorization": "Bearer s3cret"})
    registered = load("environments", name)
    assert registered.sandbox.network == ("example.org:443",)
    assert "s3cret" not in repr(registered.server)
    with pytest.raises(DuplicateNameError):
        register_mcp(name, ["python3"])
    own = SandboxSpec(memory_mib=64)
    assert load("environments", register_mcp("test/near-v1", ["python3"], sandbox=own)).sandbox is own
    for wrong in ({"url": "ftp://example.org"}, {"url": "https://"}, {"command": ("a",), "url": "https://a"}, {}):
        with pytest.raises(TaskError, match="MCP server"):
            McpServer(**wrong)


def as_event(reply: object) -> str:
    return f": hello\r\n\r\ndata: {json.dumps(reply)}\r\n\r\n"


class HttpServer(BaseHTTPRequestHandler):
    """One tool, `echo`, in the era that the path names; its replies are events of a stream where sessions are."""

    seen: list[tuple[str, str]] = []
    unanswered: dict[str, object] = {}

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = request["method"]
        self.seen.append((method, self.headers.get("Mcp-Session-Id", "")))
        if self.path == "/moved":
            self.send_response(307)
            self.send_header("Location", "/stateless")
            self.end_headers()
        elif self.path == "/stateless":
            assert self.headers["MCP-Protocol-Version"] == "2026-07-28"
            assert self.headers["Mcp-Method"] == method
            if method == "tools/call":
                assert self.headers["Mcp-Name"] == "echo"
                assert self.headers["Mcp-Param-Text"] == "=?base64?aMOp?="
            self.answer(request, json.dumps, "application/json")
        elif method == "server/discover":
            self.send_error(400)
        elif "id" not in request:
            self.send_response(202)
            self.end_headers()
        elif method == "tools/call" and self.path != "/sessions":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", "99" if self.path == "/broken" else "26")
            self.end_headers()
            self.wfile.write(b"id: 7\nretry: 60\ndata: \n\n\n")
            type(self).unanswered = request
        else:
            self.answer(request, as_event, "text/event-stream")

    def do_GET(self) -> None:
        """Go on with a stream after its last event, but at /silent only with further events without data."""
        self.seen.append(("GET", self.headers["Last-Event-ID"]))
        encode = (lambda reply: "id: 8\n\n") if self.path == "/silent" else as_event
        self.answer(self.unanswered, encode, "text/event-stream")

    def answer(self, request, encode, kind):
        schema = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}
        result = {
            "server/discover": {"supportedVersions": ["2026-07-28"]},
            "initialize": {"protocolVersion": "2025-11-25"},
            "tools/list": {"tools": [{"name": "echo", "inputSchema": schema}]},
            "tools/call": {"content": [{"type": "text", "text": request["params"].get("arguments", {}).get("text")}]},
        }[request["method"]]
        body = encode({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if request["method"] == "initialize":
            self.send_header("Mcp-Session-Id", "s-1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def http_address():
    with ThreadingHTTPServer(("127.0.0.1", 0), HttpServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        HttpServer.seen.clear()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("path", ["stateless", "sessions"])
async def test_a_server_over_http_is_played_from_a_sandbox_that_reaches_it_alone(http_address, path):
    environment = make(register_mcp("test/http-v1", url=f"http://{http_address}/{path}"))
    await environment.reset(Task("t", "test/http-v1", "Speak."), seed=0)
    assert (await environment.call(Call("echo", {"text": "h\u00e9"}))).content == "h\u00e9"
    await environment.close()
    if path == "sessions":
        assert HttpServer.seen == [
            ("server/discover", ""),
            ("initialize", ""),
            ("notifications/initialized", "s-1"),
            ("tools/list", "s-1"),
            ("tools/call", "s-1"),
        ]


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("path", ["ended", "broken", "silent"])
async def test_a_stream_that_ended_before_the_answer_goes_on_in_another_reply(http_address, path):
    environment = make(register_mcp("test/http-v1", url=f"http://{http_address}/{path}", call_s=2.0))
    await environment.reset(Task("t", "test/http-v1", "Speak."), seed=0)
    result = await environment.call(Call("echo", {"text": "late"}))
    assert (result.content == "late") is (path != "silent")
    await environment.close()
    resumed = [last_id for method, last_id in HttpServer.seen if method == "GET"]
    assert resumed[0] == "7"
    if path == "silent":
        assert set(resumed[1:]) == {"8"}
        assert "did not answer within" in result.content


@pytest.mark.needs_namespaces
@pytest.mark.parametrize(
    ("path", "sandbox", "message"),
    [
        ("moved", None, "answers 307 Temporary Redirect"),
        ("stateless", SandboxSpec(), "cannot be reached"),
        ("stateless", SandboxSpec(network=("example.org",)), "cannot be reached"),
    ],
)
async def test_no_server_is_followed_or_reached_where_the_sandbox_may_not(http_address, path, sandbox, message):
    name = register_mcp("test/http-v1", url=f"http://{http_address}/{path}", sandbox=sandbox)
    environment = make(name)
    with pytest.raises(SandboxUnavailable, match=message):
        await environment.reset(Task("t", name, "Speak."), seed=0)
    await environment.close()
    assert not [method for method, _ in HttpServer.seen if method == "tools/list"]


def test_results_are_compared_as_data():
    assert _equal(json.dumps({"a": 1, "b": [2]}), '{"b": [2], "a": 1}')
    assert _equal('{"a": 1}', {"a": 1})
    assert not _equal('{"a": 1}', {"a": 2})
    assert not _equal(None, "x")
    assert _equal("two \nlines\n", "two\nlines")
