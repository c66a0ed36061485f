"""A program's requests for a title and the like are answered, but are neither turns nor trained."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_clients import Program, through_gateway
from scripted_episodes import make_manager, say, task

from agentgym import Budgets, ScriptedPolicy
from agentgym.interop.gateway.auxiliary import MAX_AUXILIARY, Auxiliary
from agentgym.interop.gateway.chat import Chat
from agentgym.interop.gateway.gateway import PolicyGateway
from agentgym.messages import Message
from agentgym.testing import ByteRenderer, Counter, TargetReached

pytest.importorskip("starlette")

TITLE = [{"role": "system", "content": "You write titles."}, {"role": "user", "content": "Count to 2."}]
SCRIPT = [say(("add", {"amount": 2}), text="I add."), say("submit")]


async def title(http, **fields: Any) -> str:
    answer = await http.post("/v1/chat/completions", json={"messages": TITLE, **fields})
    return str(answer.raise_for_status().json()["choices"][0]["message"]["content"])


def program(http, episode) -> Program:
    player = Program(http, episode)
    player.messages.insert(0, {"role": "system", "content": "You count."})
    return player


async def test_a_title_before_or_after_the_first_turn_is_none_of_the_turns():
    async def first(http, episode):
        assert await title(http) == "I add."
        await program(http, episode).play()

    async def later(http, episode):
        player = program(http, episode)
        await player.answer_calls(await player.ask())
        await title(http)
        await player.play()

    async def without(http, episode):
        await program(http, episode).play()

    with_first, with_later, plain = await through_gateway(SCRIPT, [first, later, without])
    for trajectory in (with_first, with_later):
        assert (trajectory.error, trajectory.success) == (None, 1.0)
        assert not trajectory.further_rows
        assert trajectory.arrays().ids.tolist() == plain.arrays().ids.tolist()
        assert [turn.message for turn in trajectory.turns] == [turn.message for turn in plain.turns]
        [request] = trajectory.provenance.extra["auxiliary"]
        assert request["instructions"] == "You write titles."
        assert request["completion_tokens"] > 0
    assert "auxiliary" not in plain.provenance.extra


async def test_titles_use_no_turn_of_the_budget_and_their_tokens_count():
    async def client(http, episode):
        await title(http)
        await title(http)
        await program(http, episode).play()

    budgets = Budgets(max_turns=2, max_episode_tokens=500)
    [trajectory] = await through_gateway(SCRIPT, client, budgets=budgets)
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    assert [turn.index for turn in trajectory.turns] == [0, 1]


async def test_a_program_without_tools_plays_its_turns():
    async def client(http, episode):
        await title(http)
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway([say(text="Two.")], client)
    assert trajectory.error is None
    assert [turn.message.text for turn in trajectory.turns] == ["Two."]


async def test_the_same_instructions_without_tools_are_a_turn():
    """As a program compacts its history."""

    async def client(http, episode):
        player = program(http, episode)
        await player.answer_calls(await player.ask())
        compacting = [player.messages[0], {"role": "user", "content": "Summarise."}]
        await http.post("/v1/chat/completions", json={"messages": compacting})
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway([SCRIPT[0], say(text="Counted.")], client)
    assert [turn.row for turn in trajectory.turns] == [0, 1]


async def test_a_call_of_the_program_before_its_first_tools_keeps_the_turns():
    """What a tool did belongs to a turn."""

    async def client(http, episode):
        await title(http)
        await http.post("/episode/tools/add", json={"amount": 2})
        await program(http, episode).play()

    [trajectory] = await through_gateway([say(text="A title"), say("submit")], client)
    assert trajectory.success == 1.0
    assert [turn.row for turn in trajectory.turns] == [0, 1]


async def test_they_are_turns_where_the_recipe_says_so(tmp_path):
    code = f"""
import json, os, urllib.request
def post(path, body):
    headers = {{"Authorization": "Bearer " + os.environ["AGENTGYM_TOKEN"], "Content-Type": "application/json"}}
    sent = urllib.request.Request(os.environ["AGENTGYM_URL"] + path, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(sent))
post("/v1/chat/completions", {{"messages": {TITLE!r}}})
tool = {{"type": "function", "function": {{"name": "add"}}}}
post("/v1/chat/completions", {{"messages": [{{"role": "user", "content": "x"}}], "tools": [tool]}})
"""
    path = tmp_path / "agent.py"
    path.write_text(code)
    counts = []
    for auxiliary_turns in (False, True):
        gateway = PolicyGateway({"command": ["python3", str(path)], "auxiliary_turns": auxiliary_turns})
        policy = ScriptedPolicy([say(text="A"), say(text="B")], ByteRenderer())
        manager = make_manager(policy, engine=gateway, environment=Counter, reward=TargetReached())
        [trajectory] = await manager.collect([task("t0", 2)])
        assert trajectory.error is None
        counts.append(len(trajectory.turns))
    assert counts == [1, 2]


def test_where_the_agent_has_the_key_it_cannot_use_the_policy_unseen():
    tool = {"type": "function", "function": {"name": "add"}}
    turn = Chat((Message("system", "You count."), Message("user", "x")), (tool,))
    hidden = Chat((Message("system", "Think for me."), Message("user", "x")))
    for agent_has_key, has_acted in ((False, False), (False, True), (True, False), (True, True)):
        auxiliary = Auxiliary(are_turns=False, agent_has_key=agent_has_key)
        auxiliary.led_to(turn, [], 0, has_acted=False)
        assert auxiliary.includes(hidden, has_acted=has_acted) != (agent_has_key and has_acted)
    full = Auxiliary(are_turns=False, agent_has_key=False)
    full.led_to(turn, [], 0, has_acted=False)
    full.record += [{}] * MAX_AUXILIARY
    assert not full.includes(hidden, has_acted=False)
