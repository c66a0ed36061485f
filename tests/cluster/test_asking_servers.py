"""Workers ask the policy's server themselves, and nothing else changes: tokens, records, versions, failures."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import time
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from cluster_sessions import TwoWorkers, plain
from model_server import serving
from vllm_stand_in import vllm_stand_ins

from agentgym import Budgets, Environment, EpisodeManager, Message, Policy, RolloutConfig, Task
from agentgym.bridges.chat_api import ChatApiPolicy
from agentgym.cluster.ray_engine import HEARD_S, LeasedWorker, RayEngine
from agentgym.cluster.relay import DirectPolicy, Mailbox
from agentgym.policy import Reply, Request, VllmPolicy, make_tokenizer
from agentgym.policy.formats.hermes import Hermes
from agentgym.policy.pool import PolicyPool
from agentgym.policy.rendering import TemplateRenderer
from agentgym.rollout.replay import Fork
from agentgym.storage import Ledger

TASKS = [Task(f"t{number}", "x/talk-v1", "Talk to me.") for number in range(6)]
RENDERER = TemplateRenderer(make_tokenizer(["talk to me, and go on"], vocab_size=300), Hermes())


class Talk(Environment):
    """Answers everything."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        return task.opening()

    async def respond(self, message: Message) -> list[Message]:
        return [Message("user", "Go on.")]


def vllm(url: str) -> VllmPolicy:
    return VllmPolicy(url, "m", renderer=RENDERER)


def manager(policy: Policy, engine: TwoWorkers | None = None, ledger: Ledger | None = None, turns: int = 3):
    budgets = Budgets(max_turns=turns, max_turn_tokens=8, max_episode_tokens=10**6)
    config = RolloutConfig(environment=Talk, engine=engine, budgets=budgets, concurrency=6)
    return EpisodeManager(policy, config, ledger=ledger, label="run")


def record(trajectory):
    turns = [(turn.logprobs, turn.policy_version, turn.finish_reason, turn.usage) for turn in trajectory.turns]
    return plain(trajectory), turns, trajectory.provenance.retries


async def played_here(url: str):
    policy = vllm(url)
    trajectories = await manager(policy).collect(TASKS)
    await policy.close()
    return trajectories


def has_client(policy: Policy) -> bool:
    return bool(policy._endpoint._clients)


def test_the_episodes_are_those_of_a_driver_that_asks_and_the_driver_asks_nothing(tmp_path):
    async def scenario(url: str) -> None:
        here = await played_here(url)
        policy, ledger, engine = vllm(url), Ledger(tmp_path / "ledger.sqlite"), TwoWorkers()
        there = await manager(policy, engine, ledger).collect(TASKS)
        assert [record(trajectory) for trajectory in there] == [record(trajectory) for trajectory in here]
        assert [len(trajectory.turns) for trajectory in there] == [3] * 6
        assert there[0].turns[0].token_ids != there[1].turns[0].token_ids, "each has a seed of its own"
        assert sorted(map(record, ledger.trajectories()), key=str) == sorted(map(record, there), key=str)
        assert not has_client(policy)
        assert [link.relays for link in engine.links] == ["", ""]
        pool = PolicyPool([vllm(url), vllm(url)])
        pooled = await manager(pool, TwoWorkers()).collect(TASKS)
        assert [record(trajectory) for trajectory in pooled] == [record(trajectory) for trajectory in here]
        assert not any(has_client(server.policy) for server in pool._servers)
        branches = [
            [record(trajectory) async for trajectory in manager(player, engine).branch([Fork(here[0], 1)], 2)]
            for player, engine in ((vllm(url), TwoWorkers()), (policy, None))
        ]
        assert sorted(branches[0], key=str) == sorted(branches[1], key=str)
        assert len({str(branch) for branch in branches[0]}) == 2
        await policy.close()
        ledger.close()

    with vllm_stand_ins({"log": str(tmp_path / "log")}) as [url]:
        asyncio.run(scenario(url))


@pytest.mark.parametrize("update", ["update_weights", "update_adapter"])
@pytest.mark.parametrize("servers", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_each_reply_is_of_the_weights_whose_version_it_carries(update, servers, tmp_path):
    """The server puts the number of its weights first in each reply, when the request came and when it was answered."""

    async def scenario(urls: list[str]) -> None:
        policy = vllm(urls[0]) if servers == 1 else PolicyPool([vllm(url) for url in urls])
        playing = asyncio.ensure_future(manager(policy, TwoWorkers(), turns=12).collect(TASKS))
        for version in itertools.count(1):
            await asyncio.sleep(0.03)
            if playing.done():
                break
            await getattr(policy, update)(str(tmp_path), version=version)
        turns = [turn for trajectory in await playing for turn in trajectory.turns]
        assert [(turn.token_ids[0], turn.token_ids[1]) for turn in turns] == [
            (turn.policy_version,) * 2 for turn in turns
        ]
        assert len({turn.policy_version for turn in turns}) > 3
        assert [trajectory.provenance.retries for trajectory in await playing] == [[]] * 6
        await policy.close()

    (tmp_path / "model.safetensors").touch()
    settings = [{"log": str(tmp_path / f"log{n}"), "marks": True, "takes_s": 0.01} for n in range(servers)]
    with vllm_stand_ins(*settings) as urls:
        asyncio.run(scenario(urls))
    assert ("unload" in (tmp_path / "log0").read_text()) == (update == "update_adapter")


def test_an_update_waits_for_a_worker_that_has_not_settled_but_not_for_one_that_is_gone(tmp_path):
    async def scenario(url: str) -> None:
        policy, engine = vllm(url), TwoWorkers()
        silent, deliver = engine.links[1], engine.links[1].deliver
        silent.deliver = lambda items: deliver([item for item in items if item[0] != "weights"])
        playing = asyncio.ensure_future(manager(policy, engine, turns=12).collect(TASKS))
        await asyncio.sleep(0.1)
        updating = asyncio.ensure_future(policy.update_weights(str(tmp_path), version=1))
        await asyncio.sleep(0.1)
        assert not updating.done()
        silent.given_up = True
        await updating
        trajectories = await playing
        assert [(trajectory.error, len(trajectory.turns)) for trajectory in trajectories] == [(None, 12)] * 6
        await policy.close()

    (tmp_path / "model.safetensors").touch()
    with vllm_stand_ins({"log": str(tmp_path / "log"), "marks": True, "takes_s": 0.02}) as [url]:
        asyncio.run(scenario(url))


def test_a_node_that_does_not_reach_the_server_asks_through_the_driver_and_says_why(tmp_path, monkeypatch):
    async def scenario(url: str) -> None:
        here = await played_here(url)
        numbers = itertools.count()
        monkeypatch.setattr("agentgym.policy.http.own_loopback", lambda: f"host {next(numbers)}")
        policy, engine = vllm(url), TwoWorkers()
        there = await manager(policy, engine).collect(TASKS)
        assert [record(trajectory) for trajectory in there] == [record(trajectory) for trajectory in here]
        assert has_client(policy)
        assert [link.relays for link in engine.links] == [f"{url} is an address of the driver's host alone"] * 2
        await policy.close()

    with vllm_stand_ins({"log": str(tmp_path / "log")}) as [url]:
        asyncio.run(scenario(url))


def test_a_copy_of_a_pool_uses_the_servers_that_its_node_reaches_and_takes_the_others_out_for_good(tmp_path):
    async def scenario(urls: list[str]) -> None:
        original = PolicyPool([vllm(url) for url in urls], deadline_s=5)
        maker = original.copier()
        assert maker is not None
        copy = maker()
        await copy.check_reach()
        for part, weights in zip(copy.served_weights, original.served_weights, strict=True):
            part.take(weights.state)
        assert [reason != "" for reason in copy.state[1]] == [True, False]
        trajectories = await manager(copy).collect(TASKS)
        assert [(trajectory.error, trajectory.provenance.retries) for trajectory in trajectories] == [(None, [])] * 6
        await copy.close()

    with vllm_stand_ins({"log": str(tmp_path / "log")}) as [url]:
        asyncio.run(scenario(["http://127.0.0.1:9", url]))


def test_only_a_server_that_other_hosts_can_reach_has_copies(monkeypatch):
    class Own(VllmPolicy):
        async def generate(self, request: Request) -> Reply:
            raise NotImplementedError

    monkeypatch.setenv("KEY", "secret")
    assert Own("http://10.0.0.1:8000", "m", renderer=RENDERER).copier() is None
    assert vllm("unix:/tmp/a.sock").copier() is None
    assert PolicyPool([vllm("http://10.0.0.1:8000"), vllm("unix:/tmp/a.sock")]).copier() is None
    chat = ChatApiPolicy("http://10.0.0.1/v1", "m", api_key_env="KEY", token_field="max_completion_tokens")
    data = pickle.dumps(chat.copier())
    assert b"secret" not in data
    assert pickle.loads(data)().identity() == chat.identity()
    monkeypatch.delenv("KEY")
    with pytest.raises(Exception, match="The environment variable KEY is empty"):
        pickle.loads(data)()
    copy = pickle.loads(pickle.dumps(vllm("http://10.0.0.1:8000").copier()))()
    assert (copy.identity(), copy._endpoint.base_url) == (vllm("http://a").identity(), "http://10.0.0.1:8000")


def test_a_chat_api_is_asked_by_the_workers(tmp_path):
    async def scenario(url: str) -> None:
        policy, engine = ChatApiPolicy(url, "m"), TwoWorkers()
        trajectories = await manager(policy, engine).collect(TASKS)
        assert [(t.error, [turn.message.text for turn in t.turns]) for t in trajectories] == [(None, ["Hi."] * 3)] * 6
        assert not has_client(policy)

    choice = {"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    with serving({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}) as server:
        asyncio.run(scenario(server.url))


def test_a_reply_waits_while_the_driver_is_silent():
    """The driver may have given the worker up, and replaced the weights meanwhile."""

    class Answering(Policy):
        async def generate(self, request: Request) -> Reply:
            worker._heard_at -= HEARD_S + 1
            return Reply(Message("assistant", "Hi."))

    async def scenario() -> None:
        policy = DirectPolicy(mailbox, 0, Answering(), lambda: LeasedWorker.heard(worker))
        asking = asyncio.ensure_future(policy.generate(Request(())))
        await asyncio.sleep(0.02)
        assert (asking.done(), mailbox.asking) == (False, 1)
        LeasedWorker.beat(worker)
        assert ((await asking).message.text, mailbox.asking) == ("Hi.", 0)

    mailbox = Mailbox()
    worker = SimpleNamespace(_heard_at=time.monotonic())
    asyncio.run(scenario())


@pytest.mark.together("a cluster of Ray")
@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: make setup-cluster")
@pytest.mark.thorough
def test_the_workers_of_ray_nodes_ask_the_server_themselves_while_its_weights_change(cluster, tmp_path):
    async def scenario(url: str) -> None:
        policy, engine = vllm(url), RayEngine(cluster.address, nodes=2)
        try:
            here = await played_here(url)
            there = await manager(vllm(url), engine).collect(TASKS)
            assert [plain(trajectory) for trajectory in there] == [plain(trajectory) for trajectory in here]
            playing = asyncio.ensure_future(manager(policy, engine, turns=12).collect(TASKS))
            while not playing.done():
                await policy.update_weights(str(tmp_path), version=policy.version + 1)
                await asyncio.sleep(0.05)
            turns = [turn for trajectory in await playing for turn in trajectory.turns]
            assert [turn.token_ids[:2] for turn in turns] == [[turn.policy_version] * 2 for turn in turns]
            assert len({turn.policy_version for turn in turns}) > 3
        finally:
            await engine.close()
            await policy.close()

    (tmp_path / "model.safetensors").touch()
    with vllm_stand_ins({"log": str(tmp_path / "log"), "marks": True, "takes_s": 0.01}) as [url]:
        asyncio.run(scenario(url))
