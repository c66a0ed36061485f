"""An episode of ours as an MCP server: whoever calls its tools is the policy."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, Task, load_task_set
from agentgym.bridges.mcp.episode_server import EpisodeServer
from agentgym.errors import TaskError
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder

SET = "text/number-guess-v1"
NEW = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def request(method: str, **params) -> dict:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def call(name: str, **arguments) -> dict:
    return request("tools/call", name=name, arguments=arguments)


def the_task() -> Task:
    return load_task_set(SET)["train"][0]


async def begun(config: RolloutConfig | None = None, task: Task | None = None) -> EpisodeServer:
    episode = EpisodeServer(task or the_task(), config or RolloutConfig())
    await episode.begin()
    return episode


def text_of(reply: dict) -> tuple[str, bool]:
    result = reply["result"]
    return result["content"][0]["text"], result["isError"]


async def test_an_episode_by_mcp_is_the_episode_of_the_same_calls():
    task, script = the_task(), load_task_set(SET).oracle(the_task())
    [direct] = await EpisodeManager(ScriptedPolicy(script)).collect([task])
    episode = await begun()
    for turn in direct.turns:
        reply = await episode.answer(call(turn.calls[0].name, **turn.calls[0].arguments))
        assert text_of(reply) == (turn.results[0].content, not turn.results[0].ok)
    assert text_of(await episode.answer(call("guess", number=1))) == (
        "The episode is over: no tool can be called any more.",
        True,
    )
    trajectory = await episode.close()
    assert trajectory.success == direct.success == 1.0
    assert [turn.results[0].content for turn in trajectory.turns] == [t.results[0].content for t in direct.turns]


async def test_both_eras_are_told_the_task_and_the_tools():
    episode = await begun()
    prompt = the_task().prompt
    old = (await episode.answer(request("initialize", protocolVersion="2025-03-26")))["result"]
    assert (old["protocolVersion"], prompt in old["instructions"]) == ("2025-03-26", True)
    unknown = (await episode.answer(request("initialize", protocolVersion="1999-01-01")))["result"]
    assert unknown["protocolVersion"] == "2025-11-25"
    new = (await episode.answer(request("server/discover", **NEW)))["result"]
    assert new["supportedVersions"][0] == "2026-07-28"
    assert prompt in new["instructions"]
    listed = (await episode.answer(request("tools/list", **NEW)))["result"]
    assert [tool["name"] for tool in listed["tools"]] == ["guess"]
    assert listed["tools"][0]["inputSchema"]["required"] == ["number"]
    assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 0, "private")
    later = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01"}}
    refusal = (await episode.answer(request("tools/list", **later)))["error"]
    assert (refusal["code"], refusal["data"]) == (-32022, {"supported": ["2026-07-28"]})
    assert await episode.answer({"jsonrpc": "2.0", "method": "notifications/initialized"}) is None
    assert (await episode.answer(request("resources/list")))["error"]["code"] == -32601
    assert (await episode.answer(request("tools/call", name=3)))["error"]["code"] == -32602
    await episode.close()


async def test_calls_that_come_at_once_are_turns_one_after_the_other():
    episode = await begun()
    replies = await asyncio.gather(*(episode.answer(call("guess", number=n)) for n in (1, 2, 3)))
    trajectory = await episode.close()
    assert [turn.calls[0].arguments["number"] for turn in trajectory.turns[:3]] == [1, 2, 3]
    assert [text_of(reply)[0] for reply in replies] == [turn.results[0].content for turn in trajectory.turns[:3]]


async def test_what_a_client_does_wrong_is_told_as_an_error_and_who_leaves_has_failed():
    episode = await begun()
    content, is_error = text_of(await episode.answer(call("nosuch")))
    assert is_error
    assert "There is no tool named 'nosuch'" in content
    assert text_of(await episode.answer(call("guess", number="x")))[1]
    trajectory = await episode.close()
    assert trajectory.valid
    assert trajectory.success == 0.0


async def test_a_budget_that_is_used_up_ends_it():
    episode = await begun(RolloutConfig(budgets=Budgets(max_turns=2)))
    assert not text_of(await episode.answer(call("guess", number=1)))[1]
    await episode.answer(call("guess", number=2))
    assert text_of(await episode.answer(call("guess", number=3)))[0].startswith("The episode is over")
    assert len((await episode.close()).turns) == 2


async def test_an_episode_that_cannot_begin_says_why():
    with pytest.raises(TaskError, match=r"t cannot be played: .*low"):
        await begun(task=Task("t", "agentgym/text-number-guess-v1", "Guess.", parameters={"low": "wide"}))


def test_from_the_command_line(tmp_path):
    """Garbage between the messages is answered as such; the episode is recorded and judged."""
    out = tmp_path / "run"
    right = json.dumps(call("guess", number=the_task().truth["secret"]))
    half = json.dumps({**call("guess", number="\ud800"), "id": "\udc00"})
    lines = [json.dumps(request("tools/list")), "not json", "[]", "", half, right]
    command = [sys.executable, "-m", "agentgym", "serve", "mcp", f"{SET}:train", "--out", out]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply.get("error", {}).get("code") for reply in replies] == [None, -32700, -32700, None, None]
    assert (replies[3]["id"], replies[3]["result"]["isError"]) == ("\udc00", True)
    assert "after 2 turns: success +1" in done.stderr
    ledger = Ledger(RunFolder(out).ledger)
    [trajectory] = ledger.trajectories()
    ledger.close()
    assert trajectory.success == 1.0
    second = subprocess.run(command, input=right + "\n", capture_output=True, text=True, timeout=120)
    assert "after 1 turn: success +1" in second.stderr, "the same task in the same folder is another episode"
    ledger = Ledger(RunFolder(out).ledger)
    assert len(list(ledger.trajectories())) == 2
    ledger.close()
    wrong = subprocess.run([*command[:5], f"{SET}:train", "--task", "x"], capture_output=True, text=True, timeout=120)
    assert f"{SET}:train has no task 'x'" in wrong.stderr
