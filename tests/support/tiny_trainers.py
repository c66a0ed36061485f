"""Trainers of a tiny model that get their episodes given, and the gradients that come of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trl import GRPOConfig

from agentgym import Policy, Task, Trajectory, Turn
from agentgym.credit import estimator
from agentgym.messages import Message, StopReason
from agentgym.policy import make_model
from agentgym.training import Rollouts
from agentgym.training.samplers import Sampler
from agentgym.training.turn_grpo import TurnGRPOTrainer

LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "vespo")
GROUP = 3
TASKS = [Task(f"t{i}", "test/none-v1", prompt=f"question {i}") for i in range(2)]


class Given(Rollouts):
    """Hands out two groups made beforehand, of unequal turns, one episode failed."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self._rng = np.random.default_rng(1)
        self._vocabulary = vocabulary
        self.trajectories: list[Trajectory] = []

    def play(self, policy: Policy, tasks: list[Task], *, group_size: int, **options: Any) -> list[Trajectory]:
        self.options = options
        self.trajectories = [self._episode(task, sample) for task in tasks for sample in range(group_size)]
        self.trajectories[1].stop_reason = StopReason.INFRA_ERROR
        return self.trajectories

    def _episode(self, task: Task, sample: int) -> Trajectory:
        def draw(count: int) -> list[int]:
            return [int(i) for i in self._rng.integers(3, self._vocabulary, count)]

        turns = [
            Turn(
                k,
                Message("assistant", "x"),
                token_ids=draw(3 + k),
                logprobs=[-1.0] * (3 + k),
                observation_ids=draw(4) if k < sample else [],
                rewards={"r": float(self._rng.random())},
            )
            for k in range(sample + 1)
        ]
        return Trajectory(
            f"{task.id}#{sample}",
            task,
            sample,
            prompt_ids=draw(5),
            turns=turns,
            outcome={"success": float(sample == 2)},
            stop_reason=StopReason.ANSWERED,
        )


class InOrder(Sampler):
    """Every step draws the first tasks, in their order."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = list(tasks)

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        return self._tasks[:count]


def trainer_of(tokenizer: Any, folder: Path, **options: Any) -> TurnGRPOTrainer:
    settings: dict[str, Any] = dict(
        output_dir=str(folder),
        per_device_train_batch_size=GROUP * len(TASKS),
        num_generations=GROUP,
        max_completion_length=64,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
        max_steps=1,
    )
    return TurnGRPOTrainer(
        make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1),
        args=GRPOConfig(**{**settings, **options}),
        tasks=TASKS,
        sampler=InOrder(TASKS),
        policy=Policy(),
        rollouts=Given(len(tokenizer)),
        estimator=estimator("return_to_go"),
        processing_class=tokenizer,
    )


def rows() -> list[dict[str, Any]]:
    return [{"prompt": task.prompt, "task": i} for i, task in enumerate(TASKS) for _ in range(GROUP)]


def gradients(trainer, batch) -> dict[str, torch.Tensor]:
    trainer.model.zero_grad()
    loss = trainer.compute_loss(trainer.model, dict(batch))
    trainer.accelerator.backward(loss)
    return {"loss": loss.detach()} | {name: value.grad.clone() for name, value in trainer.model.named_parameters()}
