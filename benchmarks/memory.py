"""Compares the memory predicted by `agentgym model plan` with the peak of a training step.

    python benchmarks/memory.py [--model FOLDER]

Each row is a separate process that loads the model, trains two steps on recorded episodes (no sampling, no sandbox),
and reports its largest resident size, which is compared with the plan's. On a CPU; without --model, with a model of
random weights.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from rich.console import Console
from rich.table import Table
from training import Recorded, steps_of
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentgym import Policy, Task
from agentgym.credit import estimator
from agentgym.policy import make_tokenizer
from agentgym.training import Recipe
from agentgym.training.checks.memory_plan import plan_memory
from agentgym.training.model.grpo_config import grpo_config
from agentgym.training.model.models import load_model
from agentgym.training.processes import ALONE
from agentgym.training.turn_grpo import TurnGRPOTrainer

TASKS, GROUP = 4, 4  # 16 episodes of 240 tokens
LORA = "policy.lora.rank=16"
CHECKPOINTING = "machine.gradient_checkpointing=true"
ROWS = {
    "all weights, parts of 1,024 tokens": ["train.microbatch_tokens=1024"],
    "all weights, parts of 4,096": ["train.microbatch_tokens=4096"],
    "all weights, 4,096, checkpointing": ["train.microbatch_tokens=4096", CHECKPOINTING],
    "LoRA, parts of 1,024": ["train.microbatch_tokens=1024", LORA],
    "LoRA, parts of 4,096": ["train.microbatch_tokens=4096", LORA],
    "LoRA, 4,096, checkpointing": ["train.microbatch_tokens=4096", LORA, CHECKPOINTING],
}
LARGE_VOCABULARY_ROWS = {
    f"{kind}, 152,000 words, parts of {tokens:,}": [f"train.microbatch_tokens={tokens}", *settings]
    for kind, settings in {
        "all weights": [],
        "all weights in bf16": ["train.trl.bf16=true"],
        "LoRA": [LORA],
    }.items()
    for tokens in (256, 2048)
}
SMALL_VOCABULARY = {
    "vocab_size": 32_000,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "tie_word_embeddings": True,
}
"""A model of 59 M weights, a third of them in the vocabulary."""
LARGE_VOCABULARY = {
    "vocab_size": 152_000,
    "hidden_size": 384,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}
"""A model of 123 M weights, nearly all in the embeddings and in a separate output layer."""


def recipe_of(model: str, settings: list[str]) -> Recipe:
    data = {
        "name": "memory",
        "tasks": {"set": "text/number-guess-v1"},
        "policy": {"path": model},
        "train": {"tasks_per_step": TASKS, "group_size": GROUP},
        "machine": {"device": "cpu"},
    }
    with tempfile.TemporaryDirectory() as folder:
        import tomli_w

        file = Path(folder) / "recipe.toml"
        file.write_text(tomli_w.dumps(data), encoding="utf-8")
        return Recipe.load(file, settings)


def random_model(folder: str, shape: dict[str, Any]) -> str:
    """Save a model of random weights, and return its folder."""
    tokenizer = make_tokenizer(["select email from customers"] * 50, vocab_size=400)
    Qwen3ForCausalLM(Qwen3Config(head_dim=64, **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def measured(model: str, settings: list[str]) -> float:
    """Return the peak resident bytes of a process that trains two steps."""
    command = [sys.executable, __file__, "--worker", json.dumps([model, settings])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.splitlines()[-1])


def work(model: str, settings: list[str]) -> None:
    recipe = recipe_of(model, settings)
    learner, tokenizer = load_model(recipe.policy, "cpu", seed=0)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = TurnGRPOTrainer(
            learner,
            args=grpo_config(
                recipe.train, recipe.episode, recipe.machine, Path(scratch), "cpu", ALONE, seed=recipe.seed
            ),
            tasks=[Task(f"t{i}", "bench/none-v1", prompt=f"question {i}") for i in range(64)],
            policy=Policy(),
            rollouts=Recorded(400),
            estimator=estimator("return_to_go"),
            microbatch_tokens=recipe.train.microbatch_tokens,
            processing_class=tokenizer,
        )
        if recipe.machine.gradient_checkpointing:
            trainer.model.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs)
        step = steps_of(trainer)
        step(), step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="FOLDER")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*json.loads(arguments.worker))
        return
    table = Table(title=f"Memory of a training step of {TASKS * GROUP} episodes, GB")
    for column in ("", "planned", "measured", "planned / measured"):
        table.add_column(column, justify="right" if column else "left")
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
        if arguments.model is not None:
            models = {arguments.model: ROWS}
        else:
            models = {
                random_model(small, SMALL_VOCABULARY): ROWS,
                random_model(large, LARGE_VOCABULARY): LARGE_VOCABULARY_ROWS,
            }
        for model, rows in models.items():
            for name, settings in rows.items():
                plan = plan_memory(recipe_of(model, settings))
                planned = sum(plan.always.values()) + sum(plan.training.values())
                peak = measured(model, settings)
                table.add_row(name, f"{planned / 1e9:.2f}", f"{peak / 1e9:.2f}", f"{planned / peak:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
