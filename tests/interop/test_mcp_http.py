"""Episodes of ours as MCP servers over HTTP: both eras, whom it answers, and that nothing is left or lost."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import httpx
import pytest

from agentgym import (
    Budgets,
    EpisodeManager,
    Reward,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    close_backends,
    load_task_set,
    registry,
)
from agentgym.bridges.mcp import register_mcp
from agentgym.messages import Call, Message, StopReason
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder

pytest.importorskip("starlette")
from agentgym.bridges.mcp.http import MAX_BODY_BYTES, HttpAccess, HttpBounds, McpHttpServer

SET = "text/number-guess-v1"
TASKS = load_task_set(SET)["train"][:4]
FIRST = TASKS[0]
NEW = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def request(method: str, **params) -> dict:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def guess(number: int) -> dict:
    return request("tools/call", name="guess", arguments={"number": number})


@asynccontextmanager
async def serving(**options):
    """A client of a server in this process, and the episodes that ended."""
    ended = []
    server = McpHttpServer(TASKS, RolloutConfig(), **{"ended": ended.append, **options})
    application = server.application()
    async with (
        application.router.lifespan_context(application),
        httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://127.0.0.1:8652") as http,
    ):
        yield http, ended


async def test_a_client_with_sessions_plays_an_episode_by_each_handshake():
    async with serving() as (http, ended):
        assert (await http.get("/tasks")).json()["tasks"] == [task.id for task in TASKS]
        path = f"/tasks/{FIRST.id}/mcp"
        refused = await http.post(path, json=request("server/discover", **NEW))
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, -32601)
        begun = [await http.post(path, json=request("initialize", protocolVersion="2025-11-25")) for _ in range(2)]
        assert FIRST.prompt in begun[0].json()["result"]["instructions"]
        sessions = [reply.headers["mcp-session-id"] for reply in begun]
        assert sessions[0] != sessions[1]
        first, second = ({"Mcp-Session-Id": session} for session in sessions)
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post(path, json=note, headers=first)).status_code == 202
        right = (await http.post(path, json=guess(FIRST.truth["secret"]), headers=first)).json()["result"]
        assert right["_meta"] == {"agentgym/over": True}
        assert (await http.delete(path, headers=first)).status_code == 204
        assert (await http.post(path, json=guess(1), headers=first)).status_code == 404
        other = f"/tasks/{TASKS[1].id}/mcp"
        assert (await http.post(other, json=guess(1), headers=second)).status_code == 404
        wrong = (await http.post(path, json=guess(0), headers=second)).json()["result"]
        assert "_meta" not in wrong
        assert [trajectory.success for trajectory in ended] == [1.0]
    assert [trajectory.success for trajectory in ended] == [1.0, 0.0]  # who leaves has failed
    assert ended[1].stop_reason is StopReason.LEFT


async def test_a_client_without_sessions_is_given_the_url_of_an_episode():
    async with serving() as (http, ended):
        replies = [(await http.post("/episodes", json=body)).json() for body in ({}, {"index": 2}, {"task": FIRST.id})]
        assert [reply["task"] for reply in replies] == [TASKS[0].id, TASKS[2].id, TASKS[0].id]
        url = replies[0]["url"]
        described = (await http.post(url, json=request("server/discover", **NEW))).json()["result"]
        assert FIRST.prompt in described["instructions"]
        for number in (0, FIRST.truth["secret"]):
            await http.post(url, json={**guess(number), "params": {**guess(number)["params"], **NEW}})
        end = (await http.delete(url.removesuffix("/mcp"))).json()
        assert (end["stop_reason"], end["outcome"]["success"]) == ("environment", 1.0)
        assert len(ended[0].turns) == 2
        assert (await http.delete(url.removesuffix("/mcp"))).status_code == 404


async def test_half_of_a_surrogate_pair_is_the_agents_mistake_as_in_this_process(tmp_path):
    """Wherever it stands: in an argument, the name of a tool, a method, or an id, which the answer repeats."""
    calls = [Call("guess", {"number": "1\ud800"}), Call("gu\udc00ess", {"number": 1})]
    script = ScriptedPolicy([Message("assistant", "", (call,)) for call in calls])
    [direct] = await EpisodeManager(script, RolloutConfig(budgets=Budgets(max_turns=2))).collect([FIRST])
    ledger = Ledger(tmp_path / "ledger.sqlite")
    async with serving(ledger=ledger) as (http, ended):
        path = f"/tasks/{FIRST.id}/mcp"
        begun = await http.post(path, content=json.dumps({**request("initialize"), "id": "a\ud800"}))
        assert begun.json()["id"] == "a\ud800"
        session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
        for call, turn in zip(calls, direct.turns, strict=True):
            message = request("tools/call", name=call.name, arguments=call.arguments)
            result = (await http.post(path, content=json.dumps(message), headers=session)).json()["result"]
            assert result["isError"]
            assert result["content"] == [{"type": "text", "text": turn.results[0].content}]
        unknown = await http.post(path, content=json.dumps(request("\ud800")), headers=session)
        assert unknown.json()["error"]["message"] == "There is no method \ud800."
        right = (await http.post(path, json=guess(FIRST.truth["secret"]), headers=session)).json()["result"]
        assert right["_meta"] == {"agentgym/over": True}
        assert (await http.delete(path, headers=session)).status_code == 204
    assert (ended[0].success, ended[0].turns[0].calls[0].arguments) == (1.0, calls[0].arguments)
    assert ledger.load(ended[0].id) == ended[0]
    ledger.close()


async def test_who_may_not_ask_and_what_cannot_be_read_is_refused_and_opens_nothing():
    token = "t" * 32
    async with serving(access=HttpAccess(tokens=[token]), bounds=HttpBounds(episodes=1)) as (http, ended):
        assert (await http.post("/episodes")).status_code == 401
        http.headers["authorization"] = f"Bearer {token}"
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}):
            assert (await http.post("/episodes", headers=headers)).status_code == 403
        for body in ({"task": "x"}, {"task": 3}):
            assert (await http.post("/episodes", json=body)).status_code == 404
        for body in ({"index": 99}, {"index": True}, {"seed": 1}, []):
            assert (await http.post("/episodes", json=body)).status_code == 400
        for content in ("{", '{"index": NaN}', "[" * 10**5):
            assert (await http.post("/episodes", content=content)).status_code == 400
        assert (await http.post("/episodes", content=b" " * (MAX_BODY_BYTES + 1))).status_code == 413
        path = f"/tasks/{FIRST.id}/mcp"
        assert (await http.post(path, json=guess(1))).status_code == 400
        assert (await http.post(path, json=request("initialize"), headers={"Mcp-Session-Id": "x"})).status_code == 404
        assert (await http.delete(path)).status_code == 400
        half = b'{"jsonrpc": "2.0", "id": "\xed\xa0\x80", "method": "initialize"}'  # half of a character, no UTF-8
        assert (await http.post(path, content=half)).status_code == 400
        assert ended == []
        assert (await http.post("/episodes", json={}, headers={"origin": "http://localhost:3000"})).status_code == 201
        full = await http.post("/episodes", json={})
        assert (full.status_code, full.json()["error"]["code"]) == (503, "full")
    assert len(ended) == 1


async def test_an_episode_that_is_over_takes_no_room():
    async with serving(bounds=HttpBounds(episodes=2)) as (http, ended):
        for _ in range(6):
            url = (await http.post("/episodes", json={"task": FIRST.id})).json()["url"]
            await http.post(url, json=guess(FIRST.truth["secret"]))
        assert (await http.delete(url.removesuffix("/mcp"))).json()["outcome"]["success"] == 1.0
    assert [trajectory.success for trajectory in ended] == [1.0] * 6


async def test_an_episode_that_nobody_speaks_to_ends():
    over = asyncio.Event()
    async with serving(bounds=HttpBounds(idle_s=0.05), ended=lambda _: over.set()) as (http, _):
        url = (await http.post("/episodes", json={})).json()["url"]
        async with asyncio.timeout(30):
            await over.wait()
        assert (await http.post(url, json=guess(1))).status_code == 404


class Unjudged(Reward):
    """The server judges."""

    def outcome(self, episode):
        return {}


@pytest.fixture
def served(tmp_path):
    """The address of `agentgym serve mcp-http`, and what ends it: that returns what it said, and its episodes."""
    out = tmp_path / "run"
    command = [sys.executable, "-m", "agentgym", "serve", "mcp-http", f"{SET}:train", "--port", "0", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:

        def end():
            server.send_signal(signal.SIGINT)
            errors = server.communicate(timeout=60)[1]
            ledger = Ledger(RunFolder(out).ledger)
            episodes = {trajectory.task.id: trajectory for trajectory in ledger.trajectories()}
            ledger.close()
            return errors, episodes

        try:
            yield re.search(r"http://\S+", server.stdout.readline())[0], end
        finally:
            server.kill()


@pytest.mark.needs_namespaces
async def test_out_and_in_again_plays_the_same_episodes_through_the_command(served, monkeypatch):
    """A sandbox of `agentgym/mcp-v1` reaches the server, whose environment is then the same as ours."""
    monkeypatch.setattr(registry, "_registered", {kind: {} for kind in registry.KINDS})
    address, end = served
    task_set = load_task_set(SET)
    originals, imported = [], []
    for number, task in enumerate(TASKS):
        script = task_set.imperfect_oracle(task) if number % 2 else task_set.oracle(task)
        originals += await EpisodeManager(ScriptedPolicy(script)).collect([task])
        name = register_mcp(f"test/out-{number}-v1", url=f"{address}/tasks/{task.id}/mcp")
        copy = Task(task.id, name, task.prompt, parameters={"tools": ["guess"]})
        imported += await EpisodeManager(ScriptedPolicy(script), RolloutConfig(reward=Unjudged())).collect([copy])
    await close_backends()
    errors, episodes = await asyncio.to_thread(end)
    assert [calls_of(trajectory) for trajectory in imported] == [calls_of(trajectory) for trajectory in originals]
    for original in originals:
        assert episodes[original.task.id].success == original.success
        assert calls_of(episodes[original.task.id]) == calls_of(original)
    assert errors.count("success +1") == sum(original.success == 1.0 for original in originals)


def calls_of(trajectory) -> list:
    return [
        (call.name, call.arguments, result.content, result.status)
        for turn in trajectory.turns
        for call, result in zip(turn.calls, turn.results, strict=True)
    ]
