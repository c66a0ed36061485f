"""What the policy gateway adds to a turn: programs over HTTP against our own loop, with the same policy, in one run.

    python benchmarks/gateway.py [--episodes 64] [--turns 8] [--tokens 48] [--repeats 3]

A small model of random weights samples `--tokens` tokens for each turn, in batches as always; the message that goes out
is the script's, so that both sides play the same episodes. The programs are one process of their own, which keeps a
conversation for each episode and sends all of it with every request, as agent programs do. Both sides play in turns,
and the ratio is of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from agentgym import Call, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.interop import PolicyGateway
from agentgym.policy import Policy, Reply, Request, make_model, make_tokenizer
from agentgym.policy.formats.hermes import Hermes
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.transformers import TransformersPolicy
from agentgym.rollout import Budgets, EpisodeManager
from agentgym.testing import Counter, TargetReached

NEVER = 10**6
"""No token: no message ends before it has all its tokens."""
TOKEN = "benchmark-of-the-gateway"
PROGRAMS = Path(__file__).with_name("gateway_programs.py")


class PacedPolicy(Policy):
    """Takes a model's time for each turn, and answers by the script: count to the number of turns, then submit."""

    name = "paced"

    def __init__(self, turns: int, tokens: int) -> None:
        tokenizer = make_tokenizer(["count to eight and submit the counter"] * 50, vocab_size=400)
        model = make_model(tokenizer, hidden=512, layers=8, heads=8, kv_heads=4)
        self.renderer, self._tokens = TemplateRenderer(tokenizer, Hermes()), tokens
        # Batches wait for whoever is about to ask, in both arms alike: programs ask less evenly than our own loop.
        options = {"eos_token_ids": [NEVER], "pad_token_id": 0, "max_wait_s": 0.5}
        self._model = TransformersPolicy(model, self.renderer, **options)
        calls = [Call("add", {"amount": 1})] * (turns - 1) + [Call("submit")]
        self._script = ScriptedPolicy([Message("assistant", "", (call,)) for call in calls], self.renderer)
        self.episode_started, self.episode_ended = self._model.episode_started, self._model.episode_ended

    async def generate(self, request: Request) -> Reply:
        sampling = replace(request.sampling, max_tokens=self._tokens, temperature=1.0)
        await self._model.generate(replace(request, sampling=sampling))
        return await self._script.generate(request)

    async def close(self) -> None:
        await self._model.close()


async def turn_s(policy: Policy, episodes: int, turns: int, gateway: PolicyGateway | None, number: int) -> float:
    """Seconds of a run for each of its turns."""
    budgets = Budgets(max_turns=turns, max_turn_tokens=64)
    config = RolloutConfig(
        environment=Counter, reward=TargetReached(), budgets=budgets, concurrency=episodes, engine=gateway
    )
    tasks = [Task(f"t{i}", "test/counter-v1", "Count.", truth=turns - 1) for i in range(episodes)]
    clients = None
    if gateway is not None:
        words = [str(PROGRAMS), gateway.listen(), TOKEN, str(episodes)]
        clients = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
        await clients.stdout.readline()  # it is ready
    start = time.perf_counter()
    trajectories = await EpisodeManager(policy, config, label=f"r{number}").collect(tasks)
    seconds = time.perf_counter() - start
    if clients is not None:
        await clients.wait()
    assert all(t.outcome == {"success": 1.0} and len(t.turns) == turns for t in trajectories)
    return seconds / (episodes * turns)


async def measure(options: argparse.Namespace) -> None:
    policy = PacedPolicy(options.turns, options.tokens)
    own_s, over_s = [], []
    with closing(PolicyGateway(tokens=[TOKEN])) as gateway:
        await turn_s(policy, 4, options.turns, None, -1)  # warm
        for repeat in range(options.repeats):
            own_s.append(await turn_s(policy, options.episodes, options.turns, None, 2 * repeat))
            over_s.append(await turn_s(policy, options.episodes, options.turns, gateway, 2 * repeat + 1))
    own, over = statistics.median(own_s) * 1000, statistics.median(over_s) * 1000
    print(f"{options.episodes} episodes at once, {options.turns} turns each, {options.tokens} tokens a turn")
    print(f"our own loop {own:.2f} ms a turn, over the gateway {over:.2f} ms: a ratio of {over / own:.2f}")
    print(f"own {[round(s * 1000, 1) for s in own_s]} ms, gateway {[round(s * 1000, 1) for s in over_s]} ms")
    await policy.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=3)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
