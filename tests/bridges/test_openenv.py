"""OpenEnv without its package: our server and our client, and servers that do what none should."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import ClientSession, WSMsgType, web

from agentgym import (
    Budgets,
    Call,
    Environment,
    EpisodeManager,
    Message,
    Reward,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    load_task_set,
    registry,
    seed_of,
    tool,
)
from agentgym.bridges.openenv import openenv_tasks, register_openenv
from agentgym.bridges.openenv.server import OpenEnvServer, ServerBounds
from agentgym.bridges.openenv.session import OfferedTasks
from agentgym.errors import EnvironmentServerError, ServerUnreachable, TaskError
from agentgym.messages import ResultStatus, StopReason
from agentgym.methods.attempts import Attempts
from agentgym.registry import make
from agentgym.storage.ledger import Ledger

SETS = ("text/number-guess-v1", "text/wordle-v1", "text/frozen-lake-v1", "text/locks-v1")
GUESS = SETS[0]


@pytest.fixture(autouse=True)
def _own_names(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {kind: {} for kind in registry.KINDS})


@asynccontextmanager
async def listening(application: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving(
    set_name: str = GUESS, ledger: Ledger | None = None, bounds: ServerBounds | None = None, tokens: tuple = ()
) -> AsyncIterator[str]:
    budgets = Budgets(max_turns=99, max_void_turns=99)
    tasks = load_task_set(set_name)["train"]
    offered = OfferedTasks("served", "train", tasks, RolloutConfig(budgets=budgets), "openenv-test", ledger)
    async with listening(OpenEnvServer(offered, bounds or ServerBounds(), tokens).application()) as url:
        yield url


def erring_player(task: Task) -> ScriptedPolicy:
    """Plays as the oracle does, but for mistakes of every kind, the same ones each time."""
    right = load_task_set(next(name for name in SETS if name.split("/")[1][:-3] in task.environment)).oracle(task)

    def say(conversation):
        turn = sum(message.role == "assistant" for message in conversation)
        chance = random.Random(seed_of(task.id, turn)).random()
        message = right(conversation) if callable(right) else right[min(turn, len(right) - 1)]
        if chance < 0.1:
            return Message("assistant", "", (Call("no_such_tool", {"x": 1}),))
        if chance < 0.2:
            return (
                Message("assistant", "", (Call(message.calls[0].name, {"wrong": [1]}),)) if message.calls else message
            )
        if chance < 0.22:
            return Message("assistant", "", (Call("half\ud800", {"wrong": "\udc00"}),))
        if chance < 0.25:
            return Message("assistant", "", (Call("", {}, error="This is no call."),))
        return Message("assistant", "I give up.") if chance < 0.27 else message

    return ScriptedPolicy(say)


def seen(trajectory):
    """What an episode was, as anybody who judges or trains sees it."""
    turns = [
        (
            turn.message,
            [(result.content, result.status, result.final) for result in turn.results],
            [reply.content for reply in turn.replies],
            turn.rewards,
        )
        for turn in trajectory.turns
    ]
    opening = [(message.role, message.content) for message in trajectory.opening]
    return opening, turns, trajectory.outcome, trajectory.stop_reason, trajectory.return_from()


async def test_200_episodes_that_go_out_and_come_back_are_the_episodes_of_the_original():
    kinds = set()
    for set_name in SETS:
        tasks = load_task_set(set_name)["train"][:50]
        budgets = Budgets(max_turns=6)  # some are cut before their end
        originals = await EpisodeManager(erring_player, RolloutConfig(budgets=budgets)).collect(tasks)
        async with serving(set_name) as url:
            config = RolloutConfig(budgets=budgets, environment=f"openenv+{url}", concurrency=16)
            returned = await EpisodeManager(erring_player, config).collect(tasks)
        for original, other in zip(originals, returned, strict=True):
            assert seen(other) == seen(original)
            kinds |= {other.stop_reason, *(result.status for turn in other.turns for result in turn.results)}
    wrong = {ResultStatus.UNKNOWN_TOOL, ResultStatus.WRONG_ARGUMENTS, ResultStatus.MALFORMED}
    assert kinds >= {StopReason.ANSWERED, StopReason.ENVIRONMENT, StopReason.MAX_TURNS, ResultStatus.OK, *wrong}


async def test_each_attempt_is_judged_by_the_server_that_played_it():
    task = load_task_set(GUESS)["train"][0]
    guesses = [*[100] * 5, task.truth["secret"]]  # five wrong ones end the first attempt
    policy = [Message("assistant", "", (Call("guess", {"number": number}),)) for number in guesses]
    config = RolloutConfig(attempts=Attempts(n=2), budgets=Budgets(infra_retries=0))
    [original] = await EpisodeManager(ScriptedPolicy(policy), config).collect([task])
    async with serving() as url:
        config = replace(config, environment=f"openenv+{url}")
        [returned] = await EpisodeManager(ScriptedPolicy(policy), config).collect([task])
    assert returned.outcome == original.outcome
    assert (original.outcome["first"], original.outcome["last"]) == (0.0, 1.0)


async def test_what_is_played_over_there_is_recorded_and_judged_there(tmp_path):
    ledger, task = Ledger(tmp_path / "ledger.sqlite"), load_task_set(GUESS)["train"][7]
    async with serving(ledger=ledger) as url, ClientSession() as client, client.ws_connect(f"{url}/ws") as socket:
        await ask(socket, "reset", task_id=task.id)
        answer = await ask(socket, "step", tool_name="guess", arguments={"number": task.truth["secret"]})
        assert (answer["reward"], answer["done"]) == (1.0, True)
        assert answer["metadata"]["outcome"]["success"] == 1.0
        after = await ask(socket, "step", tool_name="guess", arguments={"number": 1})
        assert (after["reward"], after["done"], after["observation"]["result"]["is_error"]) == (0.0, True, True)
        await ask(socket, "reset", task_id=task.id)
    left, won = sorted(ledger.trajectories(), key=lambda trajectory: trajectory.outcome["success"])
    assert (left.stop_reason, left.success, len(left.turns)) == (StopReason.LEFT, 0.0, 0)
    assert (won.stop_reason, won.success) == (StopReason.ENVIRONMENT, 1.0)
    ledger.close()


async def ask(socket, kind, **data):
    await socket.send_json({"type": kind, "data": data})
    return (await socket.receive_json())["data"]


async def test_what_a_client_does_wrong_is_answered_and_harms_no_session():
    async with serving() as url, ClientSession() as client, client.ws_connect(f"{url}/ws") as socket:
        for text, code in (
            ("not json", "INVALID_JSON"),
            ("[]", "VALIDATION_ERROR"),
            ('{"type": "dance"}', "UNKNOWN_TYPE"),
            ('{"type": "step", "data": {"tool_name": "guess"}}', "EXECUTION_ERROR"),
            ('{"type": "reset", "data": {"seed": -1}}', "VALIDATION_ERROR"),
            ('{"type": "reset", "data": {"seed": true}}', "VALIDATION_ERROR"),
            ('{"type": "reset", "data": {"index": true}}', "VALIDATION_ERROR"),
            ('{"type": "reset", "data": {"task_id": "x"}}', "VALIDATION_ERROR"),
            ('{"type": "reset", "data": {"index": 100000}}', "VALIDATION_ERROR"),
        ):
            await socket.send_str(text)
            assert (await socket.receive_json())["data"]["code"] == code
        assert (await ask(socket, "reset", seed=1))["observation"]["task_id"] == "train/0001"
        for action in ({"type": "fly"}, {"tool_name": 3}, {"type": "message"}, {"tool_name": "guess", "arguments": []}):
            assert (await ask(socket, "step", **action))["code"] == "VALIDATION_ERROR"
        assert (await ask(socket, "state"))["step_count"] == 0


async def test_sessions_are_bounded_and_silent_ones_end():
    async with serving(bounds=ServerBounds(sessions=2, idle_s=0.3)) as url, ClientSession() as client:
        sockets = [await client.ws_connect(f"{url}/ws") for _ in range(3)]
        assert (await sockets[2].receive_json())["data"]["code"] == "CAPACITY_REACHED"
        assert (await sockets[2].receive()).type is WSMsgType.CLOSE
        assert (await sockets[0].receive()).type is WSMsgType.CLOSE
        created = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
        await sockets[1].receive()
        await asyncio.sleep(0.2)
        answer = await (await client.post(f"{url}/mcp", json=created)).json()
        session = answer["result"]["session_id"]
        listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"session_id": session}}
        assert "result" in await (await client.post(f"{url}/mcp", json=listed)).json()
        await asyncio.sleep(1.0)
        gone = await (await client.post(f"{url}/mcp", json=listed)).json()
        assert "There is no session" in gone["error"]["message"]


async def test_who_has_no_token_and_pages_of_a_browser_are_refused():
    async with serving(tokens=("a-token-of-some-length",)) as url, ClientSession() as client:
        right = {"Authorization": "Bearer a-token-of-some-length"}
        for headers, status in ((None, 401), ({"Authorization": "Bearer a-token"}, 401), (right, 200)):
            assert (await client.get(f"{url}/health", headers=headers)).status == status
        assert (await client.get(f"{url}/health", headers={**right, "Origin": "http://evil"})).status == 403
        environment = make(register_openenv("test/locked-v1", url))
        with pytest.raises(EnvironmentServerError, match="/schema answered with status 401"):
            await environment.reset(Task("train/0001", "test/locked-v1", "?"), seed=0)
        environment = make(register_openenv("test/open-v1", url, headers=right))
        assert await environment.reset(Task("train/0001", "test/open-v1", "?"), seed=0)
        await environment.close()


TYPED = {"properties": {"message": {"type": "string"}, "metadata": {"type": "object"}}, "required": ["message"]}


@asynccontextmanager
async def answering(*frames, schema=TYPED) -> AsyncIterator[str]:
    """A server that answers with these frames, one after the other, whatever it is asked."""

    async def serve_socket(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        rest = list(frames)
        async for _ in socket:
            if not rest:
                break
            frame = rest.pop(0)
            await (socket.send_str(frame) if isinstance(frame, str) else socket.send_json(frame))
        return socket

    async def serve_schema(request):
        return web.json_response({"action": schema})

    application = web.Application()
    application.router.add_get("/ws", serve_socket)
    application.router.add_get("/schema", serve_schema)
    async with listening(application) as url:
        yield url


def observed(reward=None, done=False, **fields):
    return {"type": "observation", "data": {"observation": fields, "reward": reward, "done": done}}


def refused(code, message="no"):
    return {"type": "error", "data": {"code": code, "message": message}}


async def begun(url, name="test/answering-v1", task="t"):
    environment = make(register_openenv(name, url, request_s=2.0))
    try:
        await environment.reset(Task(task, name, "Say hello."), seed=2**40)
    except Exception:
        await environment.close()
        raise
    return environment


HELLO = Call("act", {"message": "hello"})


async def test_actions_that_are_no_tool_calls_are_one_tool_and_rewards_are_those_of_turns():
    name = "test/answering-v1"
    frames = (observed(text="Hi."), observed(0.5, said="hello"), observed(True, True, a=1, b=None))
    async with answering(*frames) as url:
        register_openenv(name, url)
        policy = ScriptedPolicy([Message("assistant", "", (HELLO,))] * 2)
        [episode] = await EpisodeManager(policy).collect(openenv_tasks(name, "Say hello.", train=1)["train"][:1])
    assert [message.text for message in episode.opening] == ["Say hello.", "Hi."]
    assert episode.tools[0]["function"]["parameters"]["properties"] == {"message": {"type": "string"}}
    assert [turn.results[0].content for turn in episode.turns] == ["hello", '{"a": 1, "b": null}']
    assert [turn.rewards for turn in episode.turns] == [{"reward": 0.5}, {"reward": 1.0}]
    assert (episode.outcome, episode.return_from()) == ({"success": 1.0, "return": 1.5}, 1.5)
    assert episode.stop_reason is StopReason.ENVIRONMENT


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        (refused("VALIDATION_ERROR"), ResultStatus.WRONG_ARGUMENTS),
        (refused("EXECUTION_ERROR"), ResultStatus.TOOL_ERROR),
    ],
)
async def test_what_a_server_refuses_is_a_result(frame, status):
    async with answering(observed(), frame, observed(text="fine")) as url:
        environment = await begun(url)
        assert (await environment.call(HELLO)).status is status
        assert (await environment.call(HELLO)).content == "fine"
        assert (await environment.call(Call("nosuch"))).status is ResultStatus.UNKNOWN_TOOL
        await environment.close()


@pytest.mark.parametrize(
    ("frame", "error", "match"),
    [
        (refused("SESSION_ERROR"), EnvironmentServerError, "answered with the error SESSION_ERROR: no"),
        ("not json", EnvironmentServerError, "not JSON"),
        ("[]", EnvironmentServerError, "not a JSON object"),
        ({"type": "observation", "data": []}, EnvironmentServerError, "has no observation"),
        ({"type": "state", "data": {}}, EnvironmentServerError, "it answered with a frame of type 'state'"),
        (observed("much"), EnvironmentServerError, "not a finite number"),
        (observed(10**400), EnvironmentServerError, "too large"),
        (
            '{"type": "observation", "data": {"observation": {}, "reward": NaN}}',
            EnvironmentServerError,
            "NaN is not a JSON",
        ),
        (observed(done="yes"), EnvironmentServerError, "neither true nor false"),
        (None, ServerUnreachable, "ended the session"),
    ],
)
async def test_a_server_that_breaks_is_a_failure_of_the_infrastructure(frame, error, match):
    async with answering(observed(), *([frame] if frame is not None else [])) as url:
        environment = await begun(url)
        with pytest.raises(error, match=match):
            await environment.call(HELLO)
        await environment.close()


async def test_a_server_that_cannot_be_used_says_why():
    task = Task("t", "test/x-v1", "?")
    with pytest.raises(TaskError, match="of an OpenEnv server is not valid"):
        register_openenv("test/x-v1", "127.0.0.1:8000")
    with pytest.raises(ServerUnreachable, match="cannot be reached"):
        await make(register_openenv("test/y-v1", "http://127.0.0.1:9")).reset(task, seed=0)
    async with answering(schema=[]) as url:
        with pytest.raises(EnvironmentServerError, match="is not an OpenEnv server: its schema describes no actions"):
            await begun(url, "test/z-v1")
    broken = {"properties": {"tool_name": {}}}
    async with answering(observed(), observed(tools=[{"name": "a b", "input_schema": 3}]), schema=broken) as url:
        with pytest.raises(TaskError, match="offers a tool that cannot be used"):
            await begun(url, "test/w-v1")


async def test_a_client_that_thinks_for_long_answers_pings_meanwhile(monkeypatch):
    monkeypatch.setattr("agentgym.bridges.openenv.server._HEARTBEAT_S", 0.2)
    async with serving() as url:
        environment = await begun(url, "test/patient-v1", "train/0001")
        await asyncio.sleep(1.0)
        assert (await environment.call(Call("guess", {"number": 1}))).status is ResultStatus.OK
        await environment.close()


class Sluggish(Environment):
    """Its one tool takes longer than an episode may."""

    @tool
    async def wait(self) -> str:
        """Wait."""
        await asyncio.sleep(1.5)
        return "done"


class Present(Reward):
    def outcome(self, episode):
        return {"success": 0.0, "present": 0.5}


async def test_an_agent_whose_time_runs_out_in_a_call_is_judged():
    registry.register("test/sluggish-v1", Sluggish)
    task = Task("train/0000", "test/sluggish-v1", "Wait.")
    offered = OfferedTasks("served", "train", [task], RolloutConfig(reward=Present()), "openenv-test")
    async with listening(OpenEnvServer(offered).application()) as url:
        config = RolloutConfig(environment=f"openenv+{url}", budgets=Budgets(time_s=1.0, infra_retries=0))
        policy = ScriptedPolicy([Message("assistant", "", (Call("wait"),))])
        [episode] = await EpisodeManager(policy, config).collect([task])
    assert (episode.error, episode.stop_reason) == (None, StopReason.TIME)
    assert episode.outcome == {"success": 0.0, "present": 0.5}


async def test_a_long_description_of_actions_is_read_to_its_end():
    long = {**TYPED, "description": "x" * 2**20}
    async with answering(observed(text="Hi."), schema=long) as url:
        environment = await begun(url, "test/long-v1")
        assert [*environment.tools] == ["act"]
        await environment.close()


async def test_a_session_that_was_closed_begins_no_episode():
    async with serving(bounds=ServerBounds(sessions=1)) as url, ClientSession() as client:
        created = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
        session = (await (await client.post(f"{url}/mcp", json=created)).json())["result"]["session_id"]
        async with client.ws_connect(f"{url}/ws?session_id={session}") as socket:
            assert (await ask(socket, "reset", seed=1))["observation"]["task_id"] == "train/0001"
            closing = {"jsonrpc": "2.0", "id": 2, "method": "openenv/session/close", "params": {"session_id": session}}
            assert (await (await client.post(f"{url}/mcp", json=closing)).json())["result"]["closed"]
            assert (await ask(socket, "reset", seed=1))["code"] == "SESSION_ERROR"
