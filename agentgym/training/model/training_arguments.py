"""What the trainings of every stage ask of transformers' Trainer alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DECAY_TO_A_TENTH: dict[str, Any] = {
    "lr_scheduler_type": "cosine_with_min_lr",
    "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
}
"""A learning rate that falls to a tenth over the steps."""


def training_arguments(
    folder: Path,
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    max_grad_norm: float,
    save_every: int | None,
    keep_checkpoints: int,
    gradient_checkpointing: bool,
    seed: int,
    use_cpu: bool,
) -> dict[str, Any]:
    """Keyword arguments of TrainingArguments, or of one of TRL's configs derived from it; the caller adds its own.

    Args:
        folder: for checkpoints. `keep_checkpoints`: how many.
        steps: optimiser steps. batch_size: of one process.
        save_every: steps between two checkpoints; None saves none.
        gradient_checkpointing: compute activations a second time instead of keeping them.
    """
    return {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": 0.0,
        "max_grad_norm": max_grad_norm,
        "save_strategy": "no" if save_every is None else "steps",
        "save_steps": save_every or steps,
        "save_total_limit": keep_checkpoints,
        "report_to": [],
        "disable_tqdm": True,
        "seed": seed,
        "data_seed": seed,
        "gradient_checkpointing": gradient_checkpointing,
        "use_cpu": use_cpu,
        "dataloader_pin_memory": False,
    }
