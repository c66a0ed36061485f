"""The policy gateway: what a program plays over it is the episode that our own loop would have played."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import suppress

import httpx
import pytest
from gateway_clients import TOKEN, Program, through_gateway, usual
from scripted_episodes import counting, make_manager, play, say, task
from trajectory_json import trajectory_from_json, trajectory_to_json

from agentgym import Budgets, ScriptedPolicy
from agentgym.errors import AgentGymError
from agentgym.interop.gateway.gateway import PolicyGateway
from agentgym.messages import Call, Message, ResultStatus, StopReason
from agentgym.methods.attempts import Attempts
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer, Counter, CounterWithState, TargetReached

pytest.importorskip("starlette")


def counts(messages):
    """Count to 2, whatever was asked before."""
    return counting(2)[min(sum(message.role == "assistant" for message in messages), 2)]


def crashes_at_1(messages):
    return say("crash") if "Count to 1" in messages[0].text else counts(messages)


async def test_a_program_plays_the_episode_that_our_own_loop_plays():
    """Same tokens, results, rewards, states and outcome; the ids of calls are the gateway's."""
    expected = await play(counting(3), target=3, environment=CounterWithState)
    [got] = await through_gateway(counting(3), target=3, environment=CounterWithState)
    assert got.arrays().ids.tolist() == expected.arrays().ids.tolist()
    assert got.arrays().loss_mask.tolist() == expected.arrays().loss_mask.tolist()
    for ours, theirs in zip(expected.turns, got.turns, strict=True):
        assert [(r.content, r.status, r.final) for r in theirs.results] == [
            (r.content, r.status, r.final) for r in ours.results
        ]
        assert (theirs.rewards, theirs.state_key, theirs.logprobs) == (ours.rewards, ours.state_key, ours.logprobs)
    assert (got.outcome, got.stop_reason, got.further_rows) == (expected.outcome, StopReason.ANSWERED, [])
    assert trajectory_from_json(trajectory_to_json(got)) == got


async def test_a_rewritten_history_begins_a_row_and_an_earlier_row_may_go_on(tmp_path):
    """A sub-agent has a context of its own; then the program goes on with its first one, and then shortens it."""

    async def client(http, episode):
        program = Program(http, episode)
        await program.answer_calls(await program.ask())
        await program.ask([{"role": "user", "content": "Be a sub-agent."}])
        await program.answer_calls(await program.ask())
        program.messages = [{"role": "user", "content": "In short: you counted to 2."}]
        await program.answer_calls(await program.ask())

    script = [say(("add", {"amount": 1})), say(text="I am one."), say(("add", {"amount": 1})), say("submit")]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    [trajectory] = await through_gateway(script, client, ledger=ledger)
    assert [turn.row for turn in trajectory.turns] == [0, 1, 0, 2]
    assert [row.parent for row in trajectory.further_rows] == [0, 2]
    first, sub_agent, _ = trajectory.rows()
    renderer = ByteRenderer()
    assert sub_agent.prompt_ids == renderer.prompt(sub_agent.opening, sub_agent.tools)
    assert bytes(i for i in first.arrays().ids if i < 256).count(b"sub-agent") == 0
    assert first.turns[0].observation_ids
    assert not any(row.turns[-1].observation_ids for row in trajectory.rows())
    assert trajectory.outcome == {"success": 1.0}
    assert ledger.load(trajectory.id) == trajectory
    ledger.close()


async def test_a_request_that_a_client_sends_once_more_is_not_a_second_turn():
    async def client(http, episode):
        program = Program(http, episode)
        message = await program.ask()
        http.headers["x-stainless-retry-count"] = "1"
        assert await program.ask(program.messages[:-1]) == message
        del http.headers["x-stainless-retry-count"]
        await program.answer_calls(message)
        await program.play()

    [trajectory] = await through_gateway(counting(2), client)
    assert len(trajectory.turns) == 3
    assert trajectory.outcome == {"success": 1.0}


async def test_a_message_waits_for_the_calls_that_still_run():
    """A program that goes on while a tool runs: what came of it is recorded, with the turn that called it."""

    async def client(http, episode):
        program = Program(http, episode)
        [call] = (await program.ask())["tool_calls"]
        running = asyncio.create_task(http.post("/episode/tools/add", json={"amount": 1}))
        await Held.called.wait()
        program.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "It runs."})
        asking = asyncio.create_task(program.ask())
        await asyncio.sleep(0.1)
        Held.released.set()
        await running
        await program.answer_calls(await asking)
        await program.play()

    class Held(Counter):
        called, released = asyncio.Event(), asyncio.Event()

        async def call(self, call):
            Held.called.set()
            await Held.released.wait()
            return await super().call(call)

    [trajectory] = await through_gateway(counting(2), client, environment=Held)
    [result] = trajectory.turns[0].results
    assert (result.status, result.content) == (ResultStatus.OK, "1")
    assert [reply.text for reply in trajectory.turns[0].replies] == ["It runs."]
    assert trajectory.outcome == {"success": 1.0}


async def test_a_program_goes_on_from_a_call_that_could_not_be_read():
    """It sends the call back as it was told of it: no new row, and the policy reads its own tokens."""

    async def client(http, episode):
        program = Program(http, episode)
        await program.answer_calls(await program.ask())
        await program.play()

    garbled = Message("assistant", "", (Call("", {}, error="The call is not valid JSON."),))
    [trajectory] = await through_gateway([garbled, *counting(2)], client)
    assert not trajectory.further_rows
    assert trajectory.turns[0].results[0].status is ResultStatus.MALFORMED
    assert trajectory.turns[0].observation_ids
    assert trajectory.outcome == {"success": 1.0}


async def test_calls_that_no_message_holds_are_recorded_with_the_turn():
    """A program that runs code calls tools on its own, and tells the policy of it in its own words."""

    async def client(http, episode):
        program = Program(http, episode)
        await program.ask()
        for _ in range(2):
            await http.post("/episode/tools/add", json={"amount": 1})
        unknown = (await http.post("/episode/tools/fly", json={})).json()
        assert unknown["status"] == "unknown_tool"
        program.messages.append({"role": "user", "content": "Observation: 2"})
        await program.ask()
        await http.post("/episode/tools/submit", json={})

    [trajectory] = await through_gateway([say(text="add(); add()"), say(text="submit()")], client)
    first, last = trajectory.turns
    assert [call.name for call in first.calls] == ["add", "add", "fly"]
    assert [result.status for result in first.results] == [ResultStatus.OK] * 2 + [ResultStatus.UNKNOWN_TOOL]
    assert [message.text for message in first.replies] == ["Observation: 2"]
    assert b"Observation: 2" in bytes(i for i in first.observation_ids if i < 256)
    assert last.results[0].final
    assert trajectory.outcome == {"success": 1.0}


async def test_budgets_end_an_episode_whatever_its_program_does():
    over = asyncio.Event()

    async def asks(http, episode):
        program = Program(http, episode)
        with pytest.raises(httpx.HTTPStatusError, match="410"):
            await program.play()
        over.set()

    async def calls(http, episode):
        await Program(http, episode).ask()
        while (await http.post("/episode/tools/add", json={"amount": 1})).status_code == 200:
            pass
        over.set()

    async def stays(http, episode):
        """Keeps the gateway open until the other client has its last answer: it closes with its last episode."""
        await over.wait()
        with suppress(httpx.HTTPError):
            await Program(http, episode).play()

    budgets = Budgets(max_turns=3, max_calls=5)
    endless = [say(("add", {"amount": 1}))] * 20
    trajectory, _ = await through_gateway(endless, [asks, stays], budgets=budgets)
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.MAX_TURNS, 3)
    over.clear()
    trajectory, _ = await through_gateway(endless, [calls, stays], budgets=budgets)
    assert trajectory.stop_reason is StopReason.MAX_CALLS


async def test_a_silent_program_is_given_up_and_scored_if_it_has_begun():
    async def dies(http, episode):
        await Program(http, episode).ask()

    async def never_asks(http, episode):
        pass

    budgets = Budgets(infra_retries=0)
    begun, not_begun = await through_gateway(counting(2), [dies, never_asks], silence_s=0.5, budgets=budgets)
    assert (begun.stop_reason, begun.outcome) == (StopReason.TIME, {"success": 0.0})
    assert not_begun.stop_reason is StopReason.INFRA_ERROR
    assert "requested nothing for 0.5 s" in not_begun.error


async def test_an_episode_whose_time_runs_out_is_scored_if_its_program_has_begun():
    async def waits(http, episode):
        await Program(http, episode).ask()

    async def never_asks(http, episode):
        pass

    budgets = Budgets(time_s=2, infra_retries=0)
    begun, not_begun = await through_gateway(counting(2), [waits, never_asks], budgets=budgets)
    assert (begun.stop_reason, begun.outcome) == (StopReason.TIME, {"success": 0.0})
    assert begun.turns[0].results[0].status is ResultStatus.BY_PROGRAM
    assert "not ready after 2 s" in not_begun.error


async def test_a_policy_that_fails_fails_the_episode_and_the_client_is_answered():
    async def client(http, episode):
        program = Program(http, episode)
        await program.answer_calls(await program.ask())
        with pytest.raises(httpx.HTTPStatusError, match="503"):
            await program.ask()

    script = [say(("add", {"amount": 1}))]  # and nothing for the second turn
    [trajectory] = await through_gateway(script, client, budgets=Budgets(infra_retries=0))
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert "turn 1 needs one more" in trajectory.error
    assert not trajectory.outcome


async def test_bad_clients_harm_nobody_and_leave_nothing_behind():
    """Beside two that play well: garbage, a foreign token, a token that is over, a stalled body, a flood."""
    tokens: list[str] = []

    async def garbage(http, episode):
        for content in (b"{", b"[]", b"\xff" * 10, json.dumps({"messages": 3}).encode(), b"[" * 100_000):
            assert (await http.post("/v1/chat/completions", content=content)).status_code == 400
        big = b" " * (17 * 2**20)
        assert (await http.post("/v1/messages", content=big)).status_code == 413
        wrong = {"messages": [{"role": "wizard", "content": "x"}]}
        assert "wizard" in (await http.post("/v1/chat/completions", json=wrong)).json()["error"]["message"]
        for name in ("none", "x" * 43, TOKEN):
            head = {"authorization": f"Bearer {name}"}
            assert (await http.post("/v1/responses", json={}, headers=head)).status_code == 401
        assert (await http.post("/episodes")).status_code == 401  # a program's token takes no episodes
        with suppress(httpx.HTTPError):  # the gateway closes with its last episode, which this may be
            while (await http.post("/mcp", content=b"no")).status_code == 400:
                pass

    async def stalls(http, episode):
        tokens.append(episode["token"])
        host, port = http.base_url.host, http.base_url.port
        _, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\nx-api-key: ")
        writer.write(episode["token"].encode() + b"\r\n\r\n{")
        await writer.drain()
        await Program(http, episode).play()
        writer.close()

    async def floods(http, episode):
        program = Program(http, episode)
        answers = await asyncio.gather(
            *(http.post("/v1/chat/completions", json={"messages": program.messages}) for _ in range(40))
        )
        assert {answer.status_code for answer in answers} <= {200, 401, 410, 429}
        await http.post("/episode/end")
        assert (await http.get("/episode")).status_code == 401

    threads = threading.active_count()
    good, bad, stalled, flood, other = await through_gateway(
        counts, [usual, garbage, stalls, floods, usual], budgets=Budgets(max_turns=20, infra_retries=0)
    )
    assert [t.outcome.get("success") for t in (good, stalled, other)] == [1.0] * 3
    assert bad.stop_reason is StopReason.INFRA_ERROR  # it never asked for a message in words that could be read
    assert flood.valid
    assert threading.active_count() <= threads + 8  # of asyncio's own pool
    assert len(asyncio.all_tasks()) == 1


async def test_a_client_that_has_gone_takes_no_episode():
    """It asked before there was one, and gave up before it came."""
    gateway = PolicyGateway(tokens=[TOKEN], silence_s=5)
    policy = ScriptedPolicy(counting(2), ByteRenderer())
    opened = asyncio.Event()

    class Late(Counter):
        async def reset(self, task, *, seed):
            await opened.wait()
            return await super().reset(task, seed=seed)

    options = {"environment": Late, "reward": TargetReached(), "budgets": Budgets(infra_retries=0)}
    head = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=gateway.listen(), timeout=30) as http:
        playing = asyncio.create_task(make_manager(policy, engine=gateway, **options).collect([task()]))
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/episodes", headers=head, timeout=0.3)
        waiting = asyncio.create_task(http.post("/episodes", headers=head))
        await asyncio.sleep(0.1)
        opened.set()
        episode = (await waiting).json()
        http.headers["authorization"] = f"Bearer {episode['token']}"
        await usual(http, episode)
        [trajectory] = await playing
    gateway.close()
    assert trajectory.outcome == {"success": 1.0}


@pytest.mark.thorough
async def test_64_programs_play_at_once():
    trajectories = await through_gateway(counts, [usual] * 64, concurrency=64)
    assert [t.outcome["success"] for t in trajectories] == [1.0] * 64


PROGRAM = """
import json, os, sys, urllib.request

url, token = os.environ["AGENTGYM_URL"], os.environ["OPENAI_API_KEY"]

def post(path, body):
    head = {"authorization": "Bearer " + token, "content-type": "application/json"}
    request = urllib.request.Request(url + path, json.dumps(body).encode(), head)
    return json.load(urllib.request.urlopen(request))

messages = [{"role": "user", "content": sys.argv[1]}]
if "Count" not in messages[0]["content"]:
    sys.exit("no task")
while True:
    message = post("/v1/chat/completions", {"messages": messages})["choices"][0]["message"]
    messages.append(message)
    for call in message["tool_calls"]:
        name = call["function"]["name"]
        if name == "crash":
            sys.exit("I crash")
        result = post("/episode/tools/" + name, json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["text"]})
"""


async def test_a_command_is_run_for_each_episode_and_is_gone_with_it():
    def manager(script, command):
        policy = ScriptedPolicy(script, ByteRenderer())
        gateway = PolicyGateway(command)
        options = {"environment": Counter, "reward": TargetReached(), "budgets": Budgets(infra_retries=0)}
        return make_manager(policy, engine=gateway, **options)

    command = (sys.executable, "-c", PROGRAM, "{task}")
    solved, crashed = await manager(crashes_at_1, command).collect([task("t0"), task("t1", target=1)])
    assert solved.outcome == {"success": 1.0}
    assert (crashed.stop_reason, crashed.outcome) == (StopReason.ENVIRONMENT, {"success": 0.0})
    assert crashed.provenance.extra["program"]["output"].strip() == "I crash"
    [silent] = await manager(counting(2), (sys.executable, "-c", "print('no key')")).collect([task()])
    assert "ended with 0 before it requested a message from the policy. Its output ended with: 'no key" in silent.error
    [missing] = await manager(counting(2), ("/no/such/program",)).collect([task()])
    assert "cannot be started" in missing.error


async def test_what_cannot_be_served_is_said_before_anything_is_played():
    for gateway in (PolicyGateway(), PolicyGateway(["true"], tokens=[TOKEN])):
        for begin in (gateway.connect, gateway.listen):
            with pytest.raises(AgentGymError, match="a program that plays the episodes, or tokens"):
                begin()
    gateway = PolicyGateway(tokens=[TOKEN])
    manager = make_manager(ScriptedPolicy([]), environment=Counter, engine=gateway, attempts=Attempts(n=2))
    with pytest.raises(AgentGymError, match="`attempts` cannot be used"):
        await manager.collect([task()])
