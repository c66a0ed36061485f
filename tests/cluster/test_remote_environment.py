"""An environment on a server keeps the contract of one in this process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from environment_servers import TOKEN, ServerProcess, environment_server

from agentgym import (
    Budgets,
    Call,
    Checkpoint,
    EpisodeManager,
    Message,
    ResultStatus,
    RolloutConfig,
    ScriptedPolicy,
    StopReason,
    Task,
    UnknownNameError,
    make,
)
from agentgym.cluster.remote_environment import RemoteEnvironment
from agentgym.errors import AccessRefused, RemoteEnvironmentError
from agentgym.testing import Counter, CounterWithState, TargetReached, check_environment

SUBMIT = Message("assistant", "", (Call("submit", {}),))
TASK = Task("t", "test/oddities-v1", "Count.", parameters={"target": 3}, truth="secret")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with environment_server("--allow-options") as process:
        yield process


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_ENVIRONMENT_TOKEN", TOKEN)


@pytest.mark.parametrize(
    "name", ["test/counter-with-state-v1", pytest.param("test/workshop-v1", marks=pytest.mark.thorough)]
)
async def test_it_passes_the_conformance_check(server, name):
    checked = await check_environment(f"{server.url}/{name}")
    assert "checkpoints restore" in " ".join(checked)


async def test_an_episode_comes_out_as_in_this_process(server):
    def policy(task: Task) -> ScriptedPolicy:
        add = Call("add", {"amount": 1})
        script = [Message("assistant", "", (add, add)), Message("assistant", "", (add,))]
        return ScriptedPolicy([*script, Message("assistant", "", (Call("submit", {}),))])

    task = replace(TASK, environment="test/counter-with-state-v1", truth="3")
    trajectories = []
    for environment in (CounterWithState, f"{server.url}/"):
        config = RolloutConfig(environment=environment, reward=TargetReached())
        [trajectory] = await EpisodeManager(policy, config).collect([task])
        assert trajectory.error is None
        trajectories.append(trajectory)
    here, there = trajectories
    assert [turn.results for turn in there.turns] != []
    for turn, other in zip(here.turns, there.turns, strict=True):
        assert [replace(r, duration_s=0) for r in turn.results] == [replace(r, duration_s=0) for r in other.results]
        assert (turn.state_key, turn.rewards) == (other.state_key, other.rewards)
    assert (there.outcome, there.stop_reason) == (here.outcome, here.stop_reason) == ({"success": 1.0}, "answered")


async def test_a_server_that_is_stopped_for_a_while_ends_no_episode_and_a_slow_tool_ends_its_own(server):
    """The tool sleeps for most of the episode's time on the server: what the server is stopped for does not count."""

    def policy(seconds: float) -> ScriptedPolicy:
        return ScriptedPolicy([Message("assistant", "", (Call("wait_for", {"seconds": seconds}),)), SUBMIT])

    config = RolloutConfig(environment=f"{server.url}/", reward=TargetReached(), budgets=Budgets(time_s=1.0))
    running = asyncio.ensure_future(EpisodeManager(policy(0.4), config).collect([TASK]))
    await asyncio.sleep(0.2)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        server.process.send_signal(number)
        await asyncio.sleep(1.2)
    [episode] = await running
    assert (episode.stop_reason, episode.error) == (StopReason.ANSWERED, None)
    [episode] = await EpisodeManager(policy(30.0), config).collect([TASK])
    assert (episode.stop_reason, episode.error) == (StopReason.TIME, None)


async def test_a_truth_never_travels(server):
    environment = RemoteEnvironment(server.url, "test/oddities-v1")
    try:
        [opening] = await environment.reset(TASK, seed=0)
        assert opening.text == "Count. truth=None"
    finally:
        await environment.close()


async def test_what_an_environment_does_in_an_episode_reaches_the_client(server):
    environment = make(f"{server.url}/test/oddities-v1", start=4)
    try:
        await environment.reset(TASK, seed=0)
        assert (await environment.call(Call("append", {"digit": 2}))).content == "42"
        [reply] = await environment.respond(Message("assistant", "hello"))
        assert reply.text == "You said hello."
        assert ("add" in environment.tools, environment.ended) == (True, False)
        await environment.call(Call("exchange", {}))
        assert ("add" in environment.tools, environment.ended) == (False, True)
        assert (await environment.call(Call("add", {}))).status is ResultStatus.UNKNOWN_TOOL
        with pytest.raises(RemoteEnvironmentError, match=r"ZeroDivisionError.*served_environments\.py:\d+"):
            await environment.call(Call("divide", {}))
    finally:
        await environment.close()


async def test_calls_of_one_message_begin_in_their_order(server):
    environment = RemoteEnvironment(server.url, "test/oddities-v1")
    try:
        await environment.reset(TASK, seed=0)
        results = await asyncio.gather(*(environment.call(Call("append", {"digit": n % 10})) for n in range(1, 100)))
        assert [int(str(result.content)[-1]) for result in results] == [n % 10 for n in range(1, 100)]
        assert [len(str(result.content)) for result in results] == [*range(1, 100)]
    finally:
        await environment.close()


async def test_a_cancelled_call_ends_on_the_server_and_the_next_one_works(server):
    environment = RemoteEnvironment(server.url, "test/workshop-v1")
    try:
        await environment.reset(TASK, seed=0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await environment.call(Call("run", {"command": "sleep 50"}))
        result = await environment.call(Call("run", {"command": "cat /proc/*/comm | grep -c sleep"}))
        assert result.content.strip().startswith("0")
    finally:
        await environment.close()


async def test_a_checkpoint_is_restored_by_another_instance_and_in_this_process(server):
    from served_environments import Workshop

    environment = RemoteEnvironment(server.url, "test/workshop-v1")
    others = [RemoteEnvironment(server.url, "test/workshop-v1"), make(Workshop)]
    try:
        await environment.reset(TASK, seed=0)
        await environment.call(Call("write", {"name": "a", "text": "first"}))
        before = await environment.checkpoint()
        await environment.call(Call("write", {"name": "b", "text": "second"}))
        after = await environment.checkpoint()
        assert after.snapshot.layers[0] is before.snapshot.layers[0] or len(after.snapshot.layers) == 1
        for other in others:
            await other.restore(TASK.public(), after, seed=0)
            assert (await other.call(Call("read", {"name": "b"}))).content == "second"
            assert await other.state_key() == await environment.state_key() == after.snapshot.id
    finally:
        for each in (environment, *others):
            await each.close()


async def test_files_of_a_forged_checkpoint_reach_nobody_else(server):
    """Sandboxes share the files of equal digests: whoever could choose a digest would choose another client's files."""
    environment, forger, victim = (RemoteEnvironment(server.url, "test/workshop-v1") for _ in range(3))
    try:
        await environment.reset(TASK, seed=0)
        await environment.call(Call("write", {"name": "a", "text": "true"}))
        true = await environment.checkpoint()
        await environment.call(Call("write", {"name": "a", "text": "forged"}))
        forged = (await environment.checkpoint()).snapshot
        layers = tuple(replace(layer, digest=true.snapshot.layers[0].digest) for layer in forged.layers)
        await forger.restore(TASK, Checkpoint({}, replace(forged, id=true.snapshot.id, layers=layers)), seed=0)
        assert (await forger.call(Call("read", {"name": "a"}))).content == "forged"
        await victim.restore(TASK, true, seed=0)
        assert (await victim.call(Call("read", {"name": "a"}))).content == "true"
    finally:
        for each in (environment, forger, victim):
            await each.close()


async def test_what_cannot_be_sent_is_a_result(server):
    environment = RemoteEnvironment(server.url, "test/counter-v1")
    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    try:
        await environment.reset(TASK, seed=0)
        for arguments in ({"amount": deep}, {"amount": {1, 2}}, {"amount": "9" * 2**24}):
            result = await environment.call(Call("add", arguments))
            assert result.status is ResultStatus.WRONG_ARGUMENTS
        halves = Call("add", {"amount": "\ud800"}), Call("a\udc00", {})
        for call in halves:
            assert (await environment.call(call)).content == (await Counter().call(call)).content
        assert (await environment.call(Call("add", {}))).content == "1"
    finally:
        await environment.close()


def test_bad_addresses_names_and_tokens_are_one_clear_message_each(server, monkeypatch):
    with pytest.raises(UnknownNameError, match="not the address of an environment"):
        make("http://")
    with pytest.raises(UnknownNameError, match=r"test/nothing-v1 .* server\. It serves: test/counter-v1"):
        make(f"{server.url}/test/nothing-v1")
    with pytest.raises(
        AccessRefused, match=r"does not accept this token\. Set the variable AGENTGYM_ENVIRONMENT_TOKEN"
    ):
        RemoteEnvironment(server.url, "test/counter-v1", token="another-token-than-that")
    monkeypatch.delenv("AGENTGYM_ENVIRONMENT_TOKEN")
    with pytest.raises(AccessRefused, match="Set AGENTGYM_ENVIRONMENT_TOKEN to it, or AGENTGYM_ENVIRONMENT_TOKEN_FILE"):
        make(f"{server.url}/test/counter-v1")
