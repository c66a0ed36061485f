"""What a TurnGRPOTrainer step costs beside a bare TRL GRPOTrainer step on the same tokens, in the same run.

    python benchmarks/training.py [--quick] [--rounds 15] [--model models/smollm2-135m --groups 2] [--lora --bf16]

Both trainers get the same batch of recorded multi-turn episodes (made here, no sandbox), so that the difference
is ours alone: grouping, the estimator, the (B, T) advantages, the metrics, and how the batch is computed. Rounds
alternate between the two; the ratio is of medians, in processor time, which other programs hardly change. It is
measured for episodes with a prompt each, and for groups that share one, which is computed once. The model's parts must
be large beside Python's: the second ratio is meant for a real model.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import numpy as np
import torch
from checkouts import checkpoint
from figures import show_table
from peft import LoraConfig, get_peft_model
from rich.table import Table
from trl import GRPOConfig, GRPOTrainer

from agentgym import Policy, Task, Trajectory, Turn
from agentgym.credit import estimator
from agentgym.messages import Message, StopReason
from agentgym.policy import make_model, make_tokenizer
from agentgym.policy.adapters import new_adapter
from agentgym.policy.checkpoint import load_checkpoint
from agentgym.policy.load_options import ALL_LINEAR, LoadOptions, LoraOptions
from agentgym.training import Rollouts, turn_grpo

GROUP = 8


@dataclass(frozen=True)
class Shape:
    """The episodes of a step.

    Attributes:
        title: what the table calls them.
        prompt: the tokens of a prompt. shared: whether the episodes of a group have the same one.
        turn, result: the tokens of each of three turns, and of the result between two.
        limit: of the ratio to bare TRL.
    """

    title: str
    prompt: int
    shared: bool
    turn: int
    result: int
    limit: float


SHAPES = (
    Shape("each with its own prompt of 96 tokens", 96, False, 28, 30, limit=1.0),
    Shape("a group with one prompt of 400 tokens, each with 120 after it", 400, True, 20, 30, limit=0.4),
)


class Recorded(Rollouts):
    """Returns episodes that were made in advance."""

    def __init__(self, vocabulary: int, shape: Shape) -> None:
        super().__init__()
        self._rng = np.random.default_rng(0)
        self._vocabulary, self._shape, self._prompt = vocabulary, shape, [0]

    def play(self, policy: Policy, tasks: list[Task], *, group_size: int, **_: Any) -> list[Trajectory]:
        return [self._episode(task, sample) for task in tasks for sample in range(group_size)]

    def _episode(self, task: Task, sample: int) -> Trajectory:
        def draw(count: int) -> list[int]:
            return [int(i) for i in self._rng.integers(10, self._vocabulary - 10, count)]

        shape = self._shape
        if not (shape.shared and sample):
            self._prompt = draw(shape.prompt)
        turns = [
            Turn(
                index=k,
                message=Message("assistant", "x"),
                token_ids=draw(shape.turn),
                logprobs=[-1.0] * shape.turn,
                observation_ids=draw(shape.result) if k < 2 else [],
                rewards={"executed": 0.1},
            )
            for k in range(3)
        ]
        return Trajectory(
            id=f"{task.id}#{sample}",
            task=task,
            sample=sample,
            prompt_ids=self._prompt,
            turns=turns,
            outcome={"success": float(self._rng.random() < 0.5)},
            stop_reason=StopReason.ANSWERED,
        )


def bare_rollout(recorded: Recorded, tasks: list[Task]) -> Any:
    """Return the same episodes for TRL alone: a rollout_func and a scalar reward."""

    def roll_out(prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        trajectories = recorded.play(Policy(), tasks[: len(prompts) // GROUP], group_size=GROUP)
        arrays = [t.arrays() for t in trajectories]
        return {
            "prompt_ids": [a.ids[: a.prompt_length].tolist() for a in arrays],
            "completion_ids": [a.ids[a.prompt_length :].tolist() for a in arrays],
            "env_mask": [a.loss_mask[a.prompt_length :].astype(int).tolist() for a in arrays],
            "logprobs": [a.logprobs[a.prompt_length :].tolist() for a in arrays],
            "episode_return": [t.outcome_reward for t in trajectories],
        }

    return roll_out


def steps_of(trainer: GRPOTrainer) -> Any:
    """Return a closure that runs one whole step (episodes to weights) of a trainer and returns its CPU-seconds."""
    trainer.create_optimizer_and_scheduler(10**6)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # Trainer sets it in the loop that this stands for
    loader = iter(trainer.get_train_dataloader())

    def step() -> float:
        rows = next(loader)
        started = time.process_time()
        trainer.training_step(trainer.model, rows, None)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        return time.process_time() - started

    return step


def measure(
    shape: Shape, load: Callable[[bool], tuple[Any, Any]], groups: int, rounds: int, *, bf16: bool
) -> dict[str, list[float]]:
    """Return the processor seconds of each round's step of each trainer.

    Args:
        load: returns a model and its tokenizer, the same ones every time: as agentgym loads them, or as transformers
            and peft do.
        bf16: compute in bfloat16, with float32 weights.
    """
    episodes, (first, tokenizer), (second, _) = GROUP * groups, load(True), load(False)
    tasks = [
        Task(f"t{i}", "bench/none-v1", prompt=f"question {i}") for i in range(1024)
    ]  # more than any number of rounds draws
    with tempfile.TemporaryDirectory() as scratch:
        shared: dict[str, Any] = dict(
            output_dir=str(Path(scratch)),
            per_device_train_batch_size=episodes,
            num_generations=GROUP,
            max_completion_length=256,
            use_cpu=True,
            bf16=bf16,
            gradient_checkpointing=False,
            report_to=[],
            loss_type="dr_grpo",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            max_steps=10**6,
        )
        ours = turn_grpo.TurnGRPOTrainer(
            first,
            args=GRPOConfig(**shared),
            tasks=tasks,
            policy=Policy(),
            rollouts=Recorded(len(tokenizer), shape),
            estimator=estimator("return_to_go"),
            processing_class=tokenizer,
        )
        bare = GRPOTrainer(
            second,
            reward_funcs=[turn_grpo.episode_return],
            args=GRPOConfig(**shared),
            train_dataset=ours.train_dataset,
            processing_class=tokenizer,
            rollout_func=bare_rollout(Recorded(len(tokenizer), shape), tasks),
        )
        runners = {"TurnGRPOTrainer": steps_of(ours), "bare GRPOTrainer": steps_of(bare)}
        times: dict[str, list[float]] = {name: [] for name in runners}
        for round_ in range(rounds + 2):
            for name, step in runners.items():
                seconds = step()
                if round_ >= 2:  # the first rounds warm caches up
                    times[name].append(seconds)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds of 2 groups: for a first look, not for figures")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--groups", type=int, default=8, help="of eight episodes each")
    parser.add_argument(
        "--model", type=checkpoint, help="a checkpoint; by default random weights of the quickstart's shape"
    )
    parser.add_argument("--lora", action="store_true", help="train an adapter of rank 16 on all linear layers")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16, for processors with AMX")
    arguments = parser.parse_args()
    rounds, groups = (3, 2) if arguments.quick else (arguments.rounds, arguments.groups)

    def load(is_ours: bool) -> tuple[Any, Any]:
        if arguments.model:
            options = LoadOptions(attention=None if is_ours else "sdpa")
            model, tokenizer = load_checkpoint(arguments.model, device="cpu", options=options)
        else:
            tokenizer = make_tokenizer(["select email from customers where name = 'Ann'"] * 50, vocab_size=400)
            model = make_model(tokenizer)
        if arguments.lora and is_ours:
            model = new_adapter(model, LoraOptions(rank=16, alpha=32), base="", seed=0)
        elif arguments.lora:
            model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=ALL_LINEAR))
        return model, tokenizer

    for shape in SHAPES:
        times = measure(shape, load, groups, rounds, bf16=arguments.bf16)
        heading = f"One step of {GROUP * groups} episodes, {shape.title}"
        table = Table(title=f"{heading}; {rounds} rounds, threads: {torch.get_num_threads()}")
        for column in ("trainer", "median CPU-ms", "min CPU-ms", "max CPU-ms"):
            table.add_column(column, justify="right" if column != "trainer" else "left")
        for name, seconds in times.items():
            table.add_row(name, *(f"{1000 * f(seconds):.1f}" for f in (statistics.median, min, max)))
        show_table(table)
        ratio = statistics.median(times["TurnGRPOTrainer"]) / statistics.median(times["bare GRPOTrainer"])
        print(f"ratio {ratio:.3f} (limit {shape.limit:g})")


if __name__ == "__main__":
    main()
