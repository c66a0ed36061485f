"""Tokens a second that episodes sample from a model in this process, compared with transformers' plain `generate`, in
one run.

    python benchmarks/sampling.py [--model models/smollm2-135m] [--bf16] [--vllm .venv-vllm/bin/python]

Both get the same prefixes and make as many tokens at temperature 1. `generate` samples whole batches at once and keeps
neither log-probabilities nor anything from turn to turn; ours gets a request for each turn of each episode. In the rows
of unequal replies a batch of `generate` ends with its longest, and rows of ours come and go.
Rounds alternate; the ratio is of medians, and the limit to meet is 1.0. `--vllm` adds a server of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")

import numpy as np
import torch
from checkouts import checkpoint
from figures import show_table
from rich.table import Table

from agentgym import Policy
from agentgym.policy import (
    Hermes,
    Request,
    Sampling,
    TemplateRenderer,
    TransformersPolicy,
    VllmPolicy,
    make_model,
    make_tokenizer,
)
from agentgym.policy.checkpoint import load_checkpoint, save_untied
from agentgym.policy.vllm_server import SERVED_NAME, VllmServer

PROMPT, REPLY, RESULT = 128, 32, 32
"""Numbers of tokens: in a prompt, in each reply and in each tool result."""
NEVER = 10**9  # a token that no model samples: every reply has its full length


class Conversations:
    """The prompts and tool results, the same for every sampler."""

    def __init__(self, episodes: int, turns: int, vocabulary: int, *, unequal: bool = False) -> None:
        rng = np.random.default_rng(0)
        self.prompts = rng.integers(10, vocabulary - 10, (episodes, PROMPT)).tolist()
        self.results = rng.integers(10, vocabulary - 10, (turns, episodes, RESULT)).tolist()
        lengths = np.minimum(rng.geometric(1 / REPLY, (turns, episodes)), 4 * REPLY)
        self.lengths = (lengths if unequal else np.full_like(lengths, REPLY)).tolist()

    async def play(self, policy: Policy) -> int:
        """Play all episodes at once. Returns: how many tokens were sampled."""
        return sum(await asyncio.gather(*(self._episode(policy, i) for i in range(len(self.prompts)))))

    async def _episode(self, policy: Policy, index: int) -> int:
        ids, sampled, name = list(self.prompts[index]), 0, f"episode {index}"
        policy.episode_started(name)
        for turn, results in enumerate(self.results):
            sampling = Sampling(max_tokens=self.lengths[turn][index], seed=index * 100 + turn)
            reply = await policy.generate(Request([], prefix_ids=ids, sampling=sampling, episode=name, turn=turn))
            assert reply.token_ids is not None
            sampled += len(reply.token_ids)
            ids = [*ids, *reply.token_ids, *results[index]]
        policy.episode_ended(name)
        return sampled

    def generate(self, model: torch.nn.Module) -> int:
        """Play the same by plain `generate`, one turn of all episodes at once."""
        ids = torch.tensor(self.prompts)
        for results, lengths in zip(self.results, self.lengths, strict=True):
            ids = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                min_new_tokens=max(lengths),
                max_new_tokens=max(lengths),
                pad_token_id=0,
            )
            ids = torch.cat([ids, torch.tensor(results)], 1)
        return sum(map(sum, self.lengths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", type=checkpoint, help="a checkpoint; by default random weights of the quickstart's shape"
    )
    parser.add_argument("--vllm", metavar="PYTHON", help="an interpreter that has vLLM")
    parser.add_argument("--episodes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--bf16",
        action="store_true",
        help="ours computes in bfloat16 with float32 weights, as training does with AMX, and plain generate "
        "with bfloat16 weights",
    )
    arguments = parser.parse_args()
    if arguments.model:
        model, tokenizer = load_checkpoint(arguments.model, device="cpu")
    else:
        tokenizer = make_tokenizer(["select email from customers where name = 'Ann'"] * 50, vocab_size=400)
        model = make_model(tokenizer)
    plain_model, autocast = model.eval(), torch.bfloat16 if arguments.bf16 else None
    if arguments.bf16:
        plain_model = copy.deepcopy(model).to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as scratch, asyncio.Runner() as runner:
        renderer = TemplateRenderer(tokenizer, Hermes())
        ours = TransformersPolicy(model, renderer, eos_token_ids=[NEVER], pad_token_id=0, autocast=autocast)
        server, policies = None, {"agentgym, in this process": ours}
        if arguments.vllm:
            save_untied(model, tokenizer, Path(scratch) / "model")
            server = VllmServer(log=Path(scratch) / "vllm.txt", python=arguments.vllm)
            server.start(Path(scratch) / "model", ["--dtype", "float32", "--max-model-len", "1024", "--enforce-eager"])
            runner.run(server.wait_until_ready(600))
            policies["agentgym, vLLM server"] = VllmPolicy(server.address, SERVED_NAME, renderer=renderer)
        table = Table(
            title=f"{arguments.episodes} episodes, {arguments.rounds} rounds, {torch.get_num_threads()} threads"
        )
        for column in ("", "turns", "replies", "tokens/s, median", "least", "most", "ratio"):
            table.add_column(column, justify="right" if column else "left")
        for turns, unequal in ((1, False), (3, False), (3, True)):
            conversations = Conversations(arguments.episodes, turns, len(tokenizer), unequal=unequal)
            samplers: dict[str, Callable[[], int]] = {"plain generate": lambda: conversations.generate(plain_model)}  # noqa: B023
            for name, policy in policies.items():
                samplers[name] = lambda policy=policy: runner.run(conversations.play(policy))  # noqa: B023
            speeds = measure(samplers, arguments.rounds)
            plain = statistics.median(speeds["plain generate"])
            for name, values in speeds.items():
                median = statistics.median(values)
                cells = (f"{value:,.0f}" for value in (median, min(values), max(values)))
                table.add_row(name, str(turns), "unequal" if unequal else "equal", *cells, f"{median / plain:.2f}")
        show_table(table)
        for policy in policies.values():
            runner.run(policy.close())
        if server is not None:
            server.close()


@torch.inference_mode()
def measure(samplers: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """Return tokens per second of each sampler in each round, after one round that warms up."""
    speeds: dict[str, list[float]] = {name: [] for name in samplers}
    for round_ in range(rounds + 1):
        for name, sample in samplers.items():
            started = time.perf_counter()
            tokens = sample()
            if round_:
                speeds[name].append(tokens / (time.perf_counter() - started))
    return speeds


if __name__ == "__main__":
    main()
