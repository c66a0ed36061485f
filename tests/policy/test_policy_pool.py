"""Several policy servers as one policy: real processes that answer over HTTP, one killed on the way."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.errors import ContextFull, PolicyError
from agentgym.policy import PolicyPool, Request, RetryPolicy, Sampling, VllmPolicy
from agentgym.testing import CounterWithState, FakeClock

CONFIG = RolloutConfig(
    environment=CounterWithState, budgets=Budgets(max_turns=4, infra_retries=3, time_s=3600), concurrency=9
)
TASKS = [Task(f"t{n}", "x/counter-v1", "Count.", truth="9") for n in range(9)]
QUICK = RetryPolicy(attempt_s=20, total_s=20, attempts=1, backoff_s=0.001)
SERVER = """
import json, sys
from model_server import serving
with serving(json.loads(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def servers(count: int, answer: object) -> Iterator[list[tuple[subprocess.Popen[str], str]]]:
    """Processes that give every request the same answer, with their addresses."""
    path = os.pathsep.join([str(Path(__file__).parents[1] / "support"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", SERVER, json.dumps(answer)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, **pipes) for _ in range(count)]
    try:
        yield [(process, process.stdout.readline().strip()) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def request_of(episode: str, turn: int = 0) -> Request:
    return Request([Message("user", "Go.")], sampling=Sampling(max_tokens=8), episode=episode, turn=turn)


async def test_a_server_killed_on_the_way_fails_no_episode(renderer):
    ids = renderer.encode(Message("assistant", "", (Call("add", {"amount": 1}),)))
    logprobs = {"token_logprobs": [-0.5] * len(ids)}
    answer = {"choices": [{"token_ids": ids, "logprobs": logprobs, "finish_reason": "stop"}]}
    with servers(3, answer) as running:
        policies = [
            VllmPolicy(url, "m", renderer=renderer, context_tokens=9000, retry_policy=QUICK) for _, url in running
        ]
        harmed: list[str] = []

        class Harming(PolicyPool):
            async def generate(self, request):
                if request.turn == 2 and not harmed:
                    harmed.append(request.episode)
                    running[0][0].kill()
                return await super().generate(request)

        pool = Harming(policies)
        try:
            trajectories = await EpisodeManager(pool, CONFIG).collect(TASKS)
        finally:
            await pool.close()
    assert [(trajectory.error, len(trajectory.turns)) for trajectory in trajectories] == [(None, 4)] * 9
    assert [name[0] for name in pool.out] == ["0"]
    assert 2 <= sum(len(trajectory.provenance.retries) for trajectory in trajectories) <= 3


class Named(ScriptedPolicy):
    """Says its name; fails, or hangs, while it is told to."""

    def __init__(self, name: str) -> None:
        super().__init__([])
        self.name, self.error, self.weights = name, None, []

    async def generate(self, request):
        if self.error is not None:
            raise self.error
        return await ScriptedPolicy([Message("assistant", self.name)] * 9).generate(request)

    async def update_weights(self, path, *, version=None):
        if self.error is not None:
            raise self.error
        self.weights.append((path, version))


def test_a_server_that_hangs_is_left_at_its_deadline_and_fails_no_episode():
    class Hanging(ScriptedPolicy):
        async def generate(self, request):
            if request.turn == 2:
                await asyncio.Event().wait()
            return await super().generate(request)

    async def scenario() -> None:
        script = [Message("assistant", "", (Call("add", {"amount": 1}),))] * 4
        pool = PolicyPool([Hanging(script, name="hanging"), ScriptedPolicy(script, name="good")])
        trajectories = await EpisodeManager(pool, CONFIG).collect(TASKS)
        assert [(trajectory.error, len(trajectory.turns)) for trajectory in trajectories] == [(None, 4)] * 9
        assert pool.out == {"0:hanging": "no answer within 300 s"}
        retried = [note for trajectory in trajectories for note in trajectory.provenance.retries]
        assert len(retried) == 5
        assert all(note.startswith("PolicyError: hanging: no answer within 300 s") for note in retried)

    FakeClock().run(scenario())


async def test_an_episode_stays_on_its_server_and_the_next_goes_to_the_one_with_the_fewest():
    pool = PolicyPool([Named("a"), Named("b")])
    for episode in "1234":
        pool.episode_started(episode)
    first = [(await pool.generate(request_of(episode))).message.text for episode in "1234"]
    second = [(await pool.generate(request_of(episode))).message.text for episode in "4321"]
    assert first == [*reversed(second)] == ["a", "b", "a", "b"]
    pool.episode_ended("1")
    pool.episode_ended("3")
    pool.episode_started("5")
    assert (await pool.generate(request_of("5"))).message.text == "a"


async def test_a_failed_turn_goes_elsewhere_and_two_failures_in_a_row_take_a_server_out():
    bad, good = Named("bad"), Named("good")
    pool = PolicyPool([bad, good])
    bad.error = PolicyError("broken")
    with pytest.raises(PolicyError, match="bad: broken"):
        await pool.generate(request_of("1"))
    assert pool.out == {}  # it may be the request's fault
    assert (await pool.generate(request_of("1"))).message.text == "good"
    good.error = PolicyError("broken too")
    with pytest.raises(PolicyError, match="good: broken too"):
        await pool.generate(request_of("1"))
    with pytest.raises(PolicyError, match="bad: broken"):
        await pool.generate(request_of("1"))
    assert pool.out == {"0:bad": "broken"}
    good.error = None
    assert (await pool.generate(request_of("1"))).message.text == "good"


async def test_a_server_without_the_new_weights_is_out_until_it_takes_the_next():
    flaky, good = Named("flaky"), Named("good")
    pool = PolicyPool([flaky, good])
    flaky.error = PolicyError("disk full")
    await pool.update_weights("/w1")
    assert pool.version == 1
    assert pool.out == {"0:flaky": "it did not take new weights (disk full)"}
    assert {(await pool.generate(request_of(episode))).message.text for episode in "12"} == {"good"}
    flaky.error = None
    await pool.update_weights("/w2", version=7)
    assert pool.out == {}
    assert flaky.weights == [("/w2", 7)]
    assert good.weights == [("/w1", 1), ("/w2", 7)]


async def test_a_server_that_is_back_says_so_before_it_gets_weights_and_nobody_waits_for_one_that_does_not():
    class Restarted(Named):
        is_there = asyncio.Event()

        async def check_health(self) -> None:
            await self.is_there.wait()

    restarted, good = Restarted("restarted"), Restarted("good")
    pool = PolicyPool([restarted, good])
    restarted.error = PolicyError("restarting")
    await pool.update_weights("/w1")
    restarted.error = None
    await pool.update_weights("/w2")  # asks it
    assert "0:restarted" in pool.out
    restarted.is_there.set()
    await asyncio.sleep(0)
    await pool.update_weights("/w3")
    assert pool.out == {}
    assert [path for path, _ in restarted.weights] == ["/w3"]
    assert [path for path, _ in good.weights] == ["/w1", "/w2", "/w3"]
    good.error = restarted.error = PolicyError("both are restarting")
    with pytest.raises(PolicyError, match="Every policy server of the pool has failed"):
        await pool.update_weights("/w4")
    restarted.error = None
    await pool.update_weights("/w5")  # a run without a server waits for one that may be back
    assert [*pool.out] == ["1:good"]
    await pool.close()


async def test_without_a_server_the_reasons_are_said_and_a_full_context_is_no_failure():
    lone = Named("lone")
    pool = PolicyPool([lone], deadline_s=5)
    lone.error = ContextFull("too long")
    for _ in range(3):
        with pytest.raises(ContextFull):
            await pool.generate(request_of("1"))
    assert pool.out == {}
    lone.error = PolicyError("gone")
    for _ in range(2):
        with pytest.raises(PolicyError, match="lone: gone"):
            await pool.generate(request_of("1"))
    with pytest.raises(PolicyError, match=r"Every policy server of the pool has failed: 0:lone: gone\."):
        await pool.generate(request_of("1"))
    with pytest.raises(ValueError, match="at least one"):
        PolicyPool([])
    with pytest.raises(ValueError, match="deadline_s = 0"):
        PolicyPool([lone], deadline_s=0)
