"""The time that the policy gateway adds to a turn: programs over HTTP against our own loop, with the same policy, in
one run.

    python benchmarks/gateway.py [--episodes 64] [--turns 8] [--seconds 1] [--repeats 3] [--model] [--quick]

A scripted policy answers at once, and again after `--seconds`, which is short for a message of a model that answers 64
conversations. All episodes ask at the same moment, which is the hardest for the gateway. `--model` adds a small model
of random weights on this machine's CPU that samples 48 tokens a turn, in batches as always. The programs are one
separate process, which keeps a conversation for each episode and sends all of it with every request, as agent
programs do. Both sides play in turns; the ratio is of the medians.
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
from typing import NamedTuple

from figures import show_table
from rich.table import Table

from agentgym import Budgets, Call, EpisodeManager, Message, Policy, RolloutConfig, ScriptedPolicy, Task
from agentgym.interop import PolicyGateway
from agentgym.policy import Reply, Request, make_model, make_tokenizer
from agentgym.policy.formats.hermes import Hermes
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.transformers import TransformersPolicy
from agentgym.testing import Counter, TargetReached

NEVER = 10**6
"""An end token that does not exist, so that every message has its full number of tokens."""
TOKENS = 48
"""The number of tokens in a turn of the model."""
TOKEN = "benchmark-of-the-gateway"
PROGRAMS = Path(__file__).with_name("gateway_programs.py")
LIMIT = 1.2
"""The limit on a turn's time relative to our own loop, for a policy that takes a realistic time."""


class Counting(Policy):
    """Counts to the number of turns, then submits.

    Args:
        seconds: the time for each turn.
    """

    name = "counting"

    def __init__(self, turns: int, seconds: float = 0.0) -> None:
        self._tokenizer = make_tokenizer(["count to eight and submit the counter"] * 50, vocab_size=400)
        self.renderer, self._seconds = TemplateRenderer(self._tokenizer, Hermes()), seconds
        calls = [Call("add", {"amount": 1})] * (turns - 1) + [Call("submit")]
        self._script = ScriptedPolicy([Message("assistant", "", (call,)) for call in calls], self.renderer)

    async def generate(self, request: Request) -> Reply:
        await self.take_time(request)
        return await self._script.generate(request)

    async def take_time(self, request: Request) -> None:
        """Wait for the time of a turn."""
        if self._seconds:
            await asyncio.sleep(self._seconds)


class Sampling(Counting):
    """Takes as long as a model, but answers by the script, so that both sides play the same episodes."""

    def __init__(self, turns: int) -> None:
        super().__init__(turns)
        model = make_model(self._tokenizer, hidden=512, layers=8, heads=8, kv_heads=4)
        # Batches wait for whoever is about to ask, on both sides alike: programs ask less evenly than our own loop.
        options = {"eos_token_ids": [NEVER], "pad_token_id": 0, "max_wait_s": 0.5}
        self._model = TransformersPolicy(model, self.renderer, **options)
        self.episode_started, self.episode_ended = self._model.episode_started, self._model.episode_ended

    async def take_time(self, request: Request) -> None:
        sampling = replace(request.sampling, max_tokens=TOKENS, temperature=1.0)
        await self._model.generate(replace(request, sampling=sampling))

    async def close(self) -> None:
        await self._model.close()


class Cost(NamedTuple):
    """The cost of one turn of all episodes: wall seconds, and CPU seconds of this process."""

    wall_s: float
    cpu_s: float


async def play(policy: Policy, episodes: int, turns: int, gateway: PolicyGateway | None) -> Cost:
    """Play all episodes at once; if there is a gateway, programs play them."""
    budgets = Budgets(max_turns=turns, max_turn_tokens=64)
    config = RolloutConfig(
        environment=Counter, reward=TargetReached(), budgets=budgets, concurrency=episodes, engine=gateway
    )
    tasks = [Task(f"t{i}", "test/counter-v1", "Count.", truth=turns - 1) for i in range(episodes)]
    programs = None
    if gateway is not None:
        words = [str(PROGRAMS), gateway.listen(), TOKEN, str(episodes)]
        programs = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)
        assert programs.stdout is not None
        await programs.stdout.readline()  # they are ready
    start, cpu = time.perf_counter(), time.process_time()
    trajectories = await EpisodeManager(policy, config).collect(tasks)
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    if programs is not None:
        await programs.wait()
    assert all(t.outcome == {"success": 1.0} and len(t.turns) == turns for t in trajectories)
    return Cost(wall_s / turns, cpu_s / turns / episodes)


async def compare(policy: Policy, episodes: int, turns: int, repeats: int) -> tuple[Cost, Cost]:
    """Return the median costs of our own loop, and of programs over the gateway."""
    own, over = [], []
    with closing(PolicyGateway(tokens=[TOKEN])) as gateway:
        await play(policy, 2, turns, None)  # warm
        for _ in range(repeats):
            own.append(await play(policy, episodes, turns, None))
            over.append(await play(policy, episodes, turns, gateway))
    await policy.close()
    first, second = (Cost(*map(statistics.median, zip(*costs, strict=True))) for costs in (own, over))
    return first, second


async def table_of(options: argparse.Namespace) -> Table:
    """Measure everything. Returns: a row for each policy."""
    turns, seconds = options.turns, options.seconds
    policies: dict[str, Policy] = {
        "answers at once": Counting(turns),
        f"takes {seconds:g} s a turn": Counting(turns, seconds),
    }
    if options.model:
        policies[f"samples {TOKENS} tokens a turn here"] = Sampling(turns)
    title = f"A turn of {options.episodes} episodes at once, {turns} turns each: our own loop, and over the gateway"
    table = Table("policy", title=title)
    for column in ("own loop", "gateway", "ratio", "limit", "own CPU", "gateway CPU"):
        table.add_column(column, justify="right")
    for name, policy in policies.items():
        own, over = await compare(policy, options.episodes, turns, options.repeats)
        walls = [f"{cost.wall_s * 1000:,.0f} ms" for cost in (own, over)]
        cpus = [f"{cost.cpu_s * 1000:.2f} ms" for cost in (own, over)]
        limit = "-" if name == "answers at once" else f"{LIMIT}"
        table.add_row(name, *walls, f"{over.wall_s / own.wall_s:.2f}", limit, *cpus)
    return table


def options_of(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn of the policy that takes a while")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", action="store_true", help="measure a small model too; takes minutes")
    parser.add_argument("--quick", action="store_true", help="four episodes of two turns: to see that it runs")
    options = parser.parse_args(words)
    if options.quick:
        options.episodes, options.turns, options.seconds, options.repeats = 4, 2, 0.05, 1
    return options


def main() -> None:
    show_table(asyncio.run(table_of(options_of())))


if __name__ == "__main__":
    main()
