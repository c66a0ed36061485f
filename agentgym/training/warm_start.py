"""Supervised warm start: imitate oracle demonstrations, with the loss on the agent's tokens alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym import registry
from agentgym.errors import TaskError
from agentgym.policy.contract import Renderer
from agentgym.policy.formats.contract import CallFormat
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.task import Task, TaskSet, seed_of
from agentgym.training.rollouts import Rollouts
from agentgym.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym.training.seeing import Sight


def demonstrations(
    rollouts: Rollouts,
    task_set: TaskSet,
    count: int,
    *,
    imperfect_oracle: float = 0.0,
    seed: int = 0,
    seen: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Let the task set's scripted players play `count` training tasks, drawn without order.

    Args:
        imperfect_oracle: the share of them that the set's imperfect oracle plays. It uses the tools well, for the
            wrong goal.
            A policy that imitates both knows how to use the tools, and only reward can tell it what for.
        seen: called with each episode as it finishes.
    Returns: what the oracle solved, and all that the imperfect oracle played.
    Raises: TaskError if the set has no such player, or its oracle solves nothing.
    """
    tasks = sorted(task_set["train"], key=lambda task: seed_of(seed, task.id))[:count]
    split = len(tasks) - round(imperfect_oracle * len(tasks))

    def play(who: str, chosen: Sequence[Task]) -> list[Trajectory]:
        script = getattr(task_set, who)
        if script is None:
            raise TaskError(
                f"{task_set.name} has no {who} to imitate. Start from a checkpoint that can already call tools, "
                f"without [warm_start], or give the TaskSet a `{who}`."
            )
        return rollouts.play(
            lambda task: ScriptedPolicy(script(task)),
            chosen,
            label=f"demonstration-{who}",
            record=False,
            on_trajectory=seen,
        )

    played = play("oracle", tasks[:split])
    solved = [t for t in played if t.valid and (t.success or 0) >= 1]
    if not solved:
        failed = next((t.error for t in played if t.error), "no infrastructure error")
        raise TaskError(f"The oracle of {task_set.name} solved none of {split} tasks ({failed}).")
    return solved + [t for t in (play("imperfect_oracle", tasks[split:]) if imperfect_oracle else ()) if t.valid]


def texts(trajectories: Iterable[Trajectory], call_format: CallFormat) -> list[str]:
    """All that was said, calls as the agent writes them, and the tools' signatures, for training a tokenizer."""
    found = []
    for trajectory in trajectories:
        tools = registry.prototype(trajectory.task.environment).tools.values()
        found += [tool.signature() for tool in tools]
        for message in trajectory.messages():
            found.append(message.text)
            if message.calls:
                found.append(call_format.render(message.calls))
    return [text for text in found if text]


def tokenise(trajectory: Trajectory, renderer: Renderer) -> Trajectory:
    """Fill in the token ids of a trajectory that was played without a renderer, as its own agent would have."""
    environment = registry.prototype(trajectory.task.environment)
    schemas = [tool.schema() for tool in environment.tools.values()]
    trajectory.prompt_ids = renderer.prompt(trajectory.opening, schemas)
    for turn in trajectory.turns:
        turn.token_ids = renderer.encode(turn.message)
        turn.logprobs = [0.0] * len(turn.token_ids)
        if turn is not trajectory.turns[-1]:
            turn.observation_ids = renderer.observation([result.message() for result in turn.results] + [*turn.replies])
    return trajectory


def imitate(
    model: Any,
    tokenizer: Any,
    examples: Sequence[Trajectory],
    *,
    folder: Path,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    callbacks: Sequence[Any] = (),
    use_cpu: bool = True,
    sight: Sight | None = None,
) -> None:
    """Train `model` in place on token-exact trajectories with TRL's SFTTrainer.

    Args:
        examples: tokenised trajectories (see `tokenise`).
        steps: optimiser steps; linear decay to a tenth of the rate after a short warm-up.
        callbacks: transformers TrainerCallbacks; one may stop the training.
        sight: of a model that reads images: it is shown those of the examples.
    """
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    from agentgym.training.seeing import Collator

    rows = []
    for number, trajectory in enumerate(examples):
        arrays = trajectory.arrays()
        labels = [int(i) if mine else -100 for i, mine in zip(arrays.ids, arrays.loss_mask, strict=True)]
        rows.append({"input_ids": arrays.ids.tolist(), "labels": labels, "row": number})
    config = SFTConfig(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=batch_size,
        learning_rate=learning_rate, lr_scheduler_type="cosine_with_min_lr", lr_scheduler_kwargs={"min_lr_rate": 0.1},
        warmup_steps=min(20, steps // 10), logging_steps=10, save_strategy="no", report_to=[], disable_tqdm=True,
        seed=seed, data_seed=seed, max_length=None, gradient_checkpointing=False, bf16=False, use_cpu=use_cpu,
        dataloader_pin_memory=False, weight_decay=0.0, max_grad_norm=1.0, adam_beta2=0.98,
        remove_unused_columns=sight is None,
    )  # fmt: skip
    trainer = SFTTrainer(
        model, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer,
        callbacks=list(callbacks), data_collator=None if sight is None else Collator(sight, model, tokenizer, examples),
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)  # it prints every log line; we have our own
    trainer.train()
