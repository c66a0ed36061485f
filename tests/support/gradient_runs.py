"""The trainer that a recipe gets, on episodes made beforehand: for comparison with `gradient_reference`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from forks import train_in_processes
from gradient_reference import OPTIMAL_VALUE, in_float64, scores_of
from peft import LoraConfig, get_peft_model

from agentgym import Policy, Task, Trajectory, Turn
from agentgym.credit import estimator
from agentgym.messages import Message, StopReason
from agentgym.policy import make_model, make_tokenizer
from agentgym.training import Rollouts
from agentgym.training.experts import ExpertEpisodes, stored_experts
from agentgym.training.model.grpo_config import grpo_config
from agentgym.training.objectives.contract import TrlLoss, make_objective
from agentgym.training.parts import TrainingPart
from agentgym.training.processes import ALONE, Processes
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.hardware_section import HardwareSection
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.turn_grpo import TurnGRPOTrainer
from agentgym.trajectory import Row

TASKS = [Task(f"t{i}", "test/none-v1", prompt=f"question {i}") for i in range(2)]
GROUP, TEMPERATURE, MAX_LENGTH, KL, RATE = 4, 0.7, 64, 0.1, 1.0
SHAPE = {"hidden": 16, "layers": 1, "heads": 1, "kv_heads": 1}
Weights = dict[str, torch.Tensor]
ROWS = [{"prompt": task.prompt, "task": i} for i, task in enumerate(TASKS) for _ in range(GROUP)]


def episode(
    rng: np.random.Generator, task: Task, sample: int, turns: int, vocabulary: int, prompt: Sequence[int] = ()
) -> Trajectory:
    """Unequal turns of unequal lengths with results between them; the third turn, if any, is in a row of its own.

    By default the prompt is the episode's own; with `prompt`, both rows begin with it.
    """

    def draw(count: int) -> list[int]:
        return [int(i) for i in rng.integers(3, vocabulary, count)]

    return Trajectory(
        f"{task.id}#{sample}",
        task,
        sample,
        prompt_ids=list(prompt) or draw(3 if task == TASKS[0] else 5),
        turns=[
            Turn(
                k,
                Message("assistant", "x"),
                token_ids=draw(2 + int(rng.integers(4))),
                observation_ids=draw(3) if k + 1 < turns and k < 2 else [],
                rewards={"r": float(rng.random())} if rng.random() < 0.7 else {},
                state_key=f"s{min(k, int(rng.integers(3)))}",
                value=float(rng.random()),
                row=int(k == 2),
            )
            for k in range(turns)
        ],
        further_rows=[Row((Message("user", "again"),), [*prompt, *draw(3)], parent=0)] if turns > 2 else [],
        outcome={"success": float(sample % 2)},
        stop_reason=StopReason.MAX_TURNS if sample == 3 else StopReason.ANSWERED,
    )


class Given(Rollouts):
    """Two groups made beforehand: unequal and truncated episodes, a failed one, and others off policy by turns.

    Args:
        shared: the tokens of the prompt that a group shares, for each group; by default none is shared.
    """

    def __init__(self, model: Any, vocabulary: int, shared: Sequence[int] = (0, 0)) -> None:
        super().__init__()
        rng = np.random.default_rng(3)
        prompts = [[int(i) for i in np.random.default_rng(5).integers(3, vocabulary, count)] for count in shared]
        self.groups = [
            [episode(rng, task, i, 1 + (i + n) % 3, vocabulary, prompts[n]) for i in range(GROUP)]
            for n, task in enumerate(TASKS)
        ]
        self.experts = [
            episode(rng, task, 9, 2, vocabulary, prompt) for task, prompt in zip(TASKS, prompts, strict=True)
        ]
        for expert in self.experts:
            expert.outcome = {"success": 1.0}
        exact = in_float64(model)
        for n, group in enumerate(self.groups):
            for i, trajectory in enumerate(group):
                with torch.no_grad():
                    scores = scores_of(exact, trajectory, TEMPERATURE).numpy()
                # On policy, near it, so far that every bound is reached, and only in sum as probable as before.
                shift = [0.0, 0.15, 0.8, 0.4][(i + n) % 4] * rng.standard_normal(len(scores))
                values = iter(scores + shift - (shift.mean() - 1e-4) * ((i + n) % 4 == 3))
                for turn in trajectory.turns:
                    turn.logprobs = [float(next(values)) for _ in turn.token_ids]
        self.groups[0][1].stop_reason = StopReason.INFRA_ERROR

    def play(self, *_: Any, **__: Any) -> list[Trajectory]:
        return [trajectory for group in self.groups for trajectory in group]


class OptimalValues(TrainingPart):
    """The same optimal value for every task."""

    provides = ("optimal_values",)

    def columns(self, step: Any) -> dict[str, torch.Tensor]:
        return {"optimal_values": torch.full((len(step.group_of_row),), OPTIMAL_VALUE)}


def model_of(tokenizer: Any, *, seed: int = 0, lora: bool = False) -> Any:
    """A tiny model, or one with an adapter that already changes what it says."""
    model = make_model(tokenizer, seed=seed, **SHAPE)
    if not lora:
        return model
    adapted = get_peft_model(
        model, LoraConfig(r=2, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
    )
    draws = torch.Generator().manual_seed(0)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1, generator=draws)
    return adapted


def trained(model: Any) -> Weights:
    """A copy of the weights that are trained."""
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


def trainer_of(
    tokenizer: Any,
    folder: Path,
    objective: str,
    *,
    model: Any = None,
    rollouts: Given | None = None,
    processes: Processes = ALONE,
    microbatch_tokens: int = 40,
    **options: Any,
) -> TurnGRPOTrainer:
    """The trainer that a recipe with this objective gets, one step of plain gradient descent long."""
    model = model_of(tokenizer) if model is None else model
    rollouts = Given(model, len(tokenizer)) if rollouts is None else rollouts
    model.config._name_or_path = str(folder / "reference")
    trl = {"optim": "sgd", "report_to": [], **options.pop("trl", {})}
    section = TrainSection.model_validate(
        {
            "steps": 1,
            "tasks_per_step": len(TASKS),
            "group_size": GROUP,
            "kl": KL,
            "objective": objective,
            "optimiser": {"learning_rate": RATE, "max_grad_norm": 1e9},
            "trl": trl,
            **options,
        }
    )
    loss = make_objective(objective)
    return TurnGRPOTrainer(
        model,
        args=grpo_config(
            section,
            EpisodeSection(temperature=TEMPERATURE, max_episode_tokens=MAX_LENGTH),
            HardwareSection(gradient_checkpointing=False),
            folder,
            "cpu",
            processes,
            seed=0,
        ),
        tasks=TASKS,
        policy=Policy(),
        rollouts=rollouts,
        estimator=estimator("return_to_go"),
        objective=None if isinstance(loss, TrlLoss) else loss,
        microbatch_tokens=microbatch_tokens,
        processing_class=tokenizer,
        parts=[OptimalValues(), ExpertEpisodes(stored_experts(rollouts.experts))],
    )


def run(objective: str, text: str, model: Any, folder: Path, **options: Any) -> Weights:
    """Train on the given episodes. Returns: by how much the weights moved."""
    tokenizer, before = words(), trained(model)
    trainer = trainer_of(tokenizer, folder, objective, model=model, kl=0.0, **options)
    trainer._estimator = estimator(text)
    trainer.train()
    return {name: value - before[name] for name, value in trained(model).items()}


def words() -> Any:
    return make_tokenizer(["what is in the box"] * 20, vocab_size=300)


def run_in_processes(count: int, objective: str, text: str, folder: Path) -> Weights:
    """The same in several processes."""

    def work() -> None:
        rank = int(os.environ["RANK"])
        moves = run(objective, text, model_of(words()), folder, processes=Processes(rank, count))
        if rank == 0:
            torch.save(moves, folder / "moves.pt")

    train_in_processes(count, work, folder)
    moves: Weights = torch.load(folder / "moves.pt")
    return moves
