"""How far the memory that `agentgym model plan` announces is from the peak of sampling and of a training step.

    python benchmarks/memory.py [--model FOLDER] [--quick]

Each row is a process of its own. It loads a model, samples a batch of replies and trains two steps on recorded episodes
(no sandbox); then it samples and trains once more, and reports the largest resident size of each. On a CPU; without
--model, with models of random weights and the vocabulary of Qwen2.5. --quick measures two rows of a smaller one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import numpy as np
from figures import show_table
from rich.table import Table
from training import Recorded, Shape, steps_of
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym import Policy, Task
from agentgym.credit import estimator
from agentgym.policy import Request, Sampling, make_tokenizer
from agentgym.training import Recipe
from agentgym.training.checks.memory_plan import MemoryPlan, plan_memory
from agentgym.training.model.grpo_config import grpo_config
from agentgym.training.model.models import load_model
from agentgym.training.processes import ALONE
from agentgym.training.trained_policy import trained_policy
from agentgym.training.turn_grpo import TurnGRPOTrainer

LORA = "policy.lora.rank=16"
CHECKPOINTING = "machine.gradient_checkpointing=true"
SAMPLED = 4
"""How many tokens of a turn are sampled; more take time, and no more memory."""
WORST = 1.15
"""How many times the other the larger of plan and measurement may be."""


@dataclass(frozen=True)
class Row:
    """A measurement.

    Attributes:
        title: what the table calls it. settings: the recipe's.
        prompt: the tokens of a prompt. own: whether each episode of a group has a prompt of its own.
        turn: the tokens of each of three turns.
        tasks, group: the size of a step.
    """

    title: str
    settings: list[str] = field(default_factory=list)
    prompt: int = 96
    own: bool = False
    turn: int = 28
    tasks: int = 2
    group: int = 4

    @property
    def shape(self) -> Shape:
        return Shape(self.title, self.prompt, not self.own, self.turn, 30, limit=1.0)

    @property
    def episode_tokens(self) -> int:
        return 3 * self.turn + 2 * 30


def microbatch(tokens: int) -> str:
    return f"train.microbatch_tokens={tokens}"


ROWS = (
    Row("all weights, parts of 512", [microbatch(512)]),
    Row("all weights, parts of 2,048", [microbatch(2048)]),
    Row("all weights, 2,048, a prompt each", [microbatch(2048)], own=True),
    Row("all weights, 2,048, KL", [microbatch(2048), "train.kl=0.1"]),
    Row("all weights, 4,096, checkpointing", [microbatch(4096), CHECKPOINTING], own=True),
    Row("all weights, bf16", [microbatch(2048), "train.trl.bf16=true"]),
    Row("LoRA, 512", [microbatch(512), LORA]),
    Row("LoRA, 2,048", [microbatch(2048), LORA]),
    Row("LoRA, 2,048, KL", [microbatch(2048), LORA, "train.kl=0.1"]),
    Row("LoRA, 4,096, checkpointing", [microbatch(4096), LORA, CHECKPOINTING], own=True),
    Row("LoRA, prompts of 1,000", [microbatch(4096), LORA], prompt=1000),
    Row("LoRA, groups of 8, prompts of 400", [microbatch(4096), LORA], prompt=400, group=8, tasks=1),
    Row("LoRA, turns of 120", [microbatch(4096), LORA], turn=120),
)
QUICK = (1, 7)
SHAPE = {"hidden_size": 320, "intermediate_size": 1728, "num_hidden_layers": 4, "num_attention_heads": 5}
"""A third of Qwen2.5-0.5B's width and a sixth of its depth: 56 M weights, most of them in the vocabulary."""
SMALL_SHAPE = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 2}


def recipe_of(model: str, row: Row) -> Recipe:
    import tomli_w

    data = {
        "name": "memory",
        "tasks": {"set": "text/number-guess-v1"},
        "policy": {"path": model},
        "episode": {"max_turns": 3, "max_turn_tokens": row.turn, "max_episode_tokens": row.episode_tokens},
        "train": {"tasks_per_step": row.tasks, "group_size": row.group},
        "machine": {"device": "cpu"},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recipe.toml"
        file.write_text(tomli_w.dumps(data), encoding="utf-8")
        return Recipe.load(file, row.settings)


def random_model(folder: str, shape: dict[str, int]) -> str:
    """Save a model of random weights with Qwen2.5's vocabulary, and return its folder."""
    tokenizer = make_tokenizer(["select email from customers"] * 50, vocab_size=400)
    config = Qwen2Config(vocab_size=151_936, num_key_value_heads=1, tie_word_embeddings=True, **shape)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def planned(model: str, row: Row) -> tuple[float, float]:
    """Return the bytes planned while sampling, and in a training step."""
    plan: MemoryPlan = plan_memory(recipe_of(model, row), prompt_tokens=row.prompt, available=1e12)
    always = sum(plan.always.values())
    return always + sum(plan.sampling.values()), always + sum(plan.training.values())


def measured(model: str, row: Row) -> tuple[float, float]:
    """Return the peak resident bytes of a process while it samples, and in a training step."""
    number = str(ROWS.index(row))
    done = subprocess.run([sys.executable, __file__, "--worker", model, number], check=True, stdout=-1, text=True)
    sampling, training = json.loads(done.stdout.splitlines()[-1])
    return sampling, training


def work(model: str, row: Row) -> None:
    """Print the peaks in bytes: while sampling, and in a training step."""
    recipe = recipe_of(model, row)
    learner, tokenizer = load_model(recipe.policy, "cpu", seed=0)
    precision = recipe.train.autocast("cpu")
    policy = trained_policy(
        learner, tokenizer, recipe.policy, recipe.machine, precision=precision, engine=None, is_first=True
    )
    with tempfile.TemporaryDirectory() as scratch:
        trainer = TurnGRPOTrainer(
            learner,
            args=grpo_config(
                recipe.train, recipe.episode, recipe.machine, Path(scratch), "cpu", ALONE, seed=recipe.seed
            ),
            tasks=[Task(f"t{i}", "bench/none-v1", prompt=f"question {i}") for i in range(64)],
            policy=Policy(),
            rollouts=Recorded(400, row.shape),
            estimator=estimator("return_to_go"),
            microbatch_tokens=recipe.train.microbatch_tokens,
            processing_class=tokenizer,
        )
        if recipe.machine.gradient_checkpointing:
            trainer.model.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs)
        step = steps_of(trainer)
        asyncio.run(sample(policy, row))
        step(), step()
        peaks = []
        for phase in (lambda: asyncio.run(sample(policy, row)), step):
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            phase()
            peaks.append(peak_bytes())
    print(json.dumps(peaks))


async def sample(policy: Any, row: Row) -> None:
    """Sample a batch of a step's size, three turns of each episode."""
    rng, episodes = np.random.default_rng(0), row.tasks * row.group
    prompts = [rng.integers(10, 390, row.prompt).tolist() for _ in range(episodes if row.own else row.tasks)]
    conversations = [list(prompts[n if row.own else n // row.group]) for n in range(episodes)]
    for n in range(episodes):
        policy.episode_started(str(n))
    for turn in range(3):
        sampling = Sampling(max_tokens=SAMPLED, seed=turn)
        requests = (Request([], (), ids, sampling, str(n)) for n, ids in enumerate(conversations))
        await asyncio.gather(*map(policy.generate, requests))
        for ids in conversations:
            ids += rng.integers(10, 390, row.turn + 30).tolist()
    for n in range(episodes):
        policy.episode_ended(str(n))


def peak_bytes() -> float:
    """Return the largest resident size of this process."""
    status = Path("/proc/self/status").read_text()
    return 1024.0 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="FOLDER")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker[0], ROWS[int(arguments.worker[1])])
        return
    table = Table(title="Memory, planned and measured, GB")
    for column in ("", "sampling", "measured", "ratio", "a step", "measured", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    worst = 1.0
    with tempfile.TemporaryDirectory() as folder:
        model = arguments.model or random_model(folder, SMALL_SHAPE if arguments.quick else SHAPE)
        for row in [ROWS[number] for number in QUICK] if arguments.quick else ROWS:
            cells = []
            for plan, peak in zip(planned(model, row), measured(model, row), strict=True):
                worst = max(worst, plan / peak, peak / plan)
                cells += [f"{plan / 1e9:.2f}", f"{peak / 1e9:.2f}", f"{plan / peak:.2f}"]
            print(row.title, *cells, flush=True)
            table.add_row(row.title, *cells)
    show_table(table)
    if worst > WORST:
        sys.exit(f"A plan is {worst:.2f} times off; {WORST} is allowed.")


if __name__ == "__main__":
    main()
