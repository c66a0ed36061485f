"""Makes TRL's GRPOConfig from a recipe's sections."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from transformers.integrations import get_available_reporting_integrations, get_reporting_integration_callbacks
from trl import GRPOConfig
from trl.import_utils import is_vllm_available

from agentgym.errors import RecipeError
from agentgym.training.model.sharding import sharding_arguments
from agentgym.training.objectives.contract import TrlLoss, make_objective
from agentgym.training.processes import Processes
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.hardware_section import HardwareSection
from agentgym.training.recipe.train_section import TrainSection

DECAY_TO_A_TENTH: dict[str, Any] = {
    "lr_scheduler_type": "cosine_with_min_lr",
    "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
}
"""Options for a learning rate that falls to a tenth over the steps."""


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
    """Return keyword arguments for TrainingArguments or a derived TRL config; the caller adds others.

    Args:
        folder: the folder of checkpoints. `keep_checkpoints`: how many to keep.
        steps: number of optimiser steps. batch_size: per process.
        save_every: number of steps between two checkpoints; None to save none.
        gradient_checkpointing: recompute activations in the backward pass instead of storing them.
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


_UNTRUNCATED = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
"""Sampling options that can distort the model's distribution, with their neutral values."""


def grpo_config(
    section: TrainSection,
    episode: EpisodeSection,
    hardware: HardwareSection,
    checkpoints: Path,
    device: str,
    processes: Processes,
    *,
    seed: int,
) -> GRPOConfig:
    """Translate [train], [episode] and [machine] into TRL's GRPOConfig; [train.trl] passes other options through.

    Args:
        checkpoints: the folder of the checkpoints.
        device: torch's name of the training device.
        processes: the processes that train together.
    Raises: RecipeError for an option unknown to TRL, with the nearest known one, or for a value that TRL rejects.
    """
    objective = make_objective(section.objective)
    episodes = section.tasks_per_step * section.group_size
    known = sorted(GRPOConfig.__dataclass_fields__)
    for key in section.trl.keys() - set(known):
        close = get_close_matches(key, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise RecipeError(f"[train.trl] {key} = {section.trl[key]!r}: TRL's GRPOConfig has no option {key!r}.{hint}")
    options = training_arguments(
        checkpoints,
        steps=section.steps * section.passes,
        batch_size=processes.part_of(episodes, "train.tasks_per_step x train.group_size"),
        learning_rate=section.optimiser.learning_rate,
        max_grad_norm=section.optimiser.max_grad_norm,
        save_every=section.save_every,
        keep_checkpoints=section.keep_checkpoints,
        gradient_checkpointing=hardware.gradient_checkpointing,
        seed=seed,
        use_cpu=device == "cpu",
    ) | dict(
        steps_per_generation=1,
        num_generations=section.group_size if section.group_size > 1 else episodes,
        num_iterations=section.passes,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=section.optimiser.warmup_steps,
        loss_type=objective.loss_type if isinstance(objective, TrlLoss) else "dr_grpo",
        beta=section.kl,
        temperature=episode.temperature,
        top_p=episode.top_p,
        max_completion_length=episode.max_episode_tokens,
        disable_dropout=True,  # episodes are sampled without dropout
        logging_steps=1,
        bf16=section.autocast(device) == "bfloat16",
        **sharding_arguments(hardware.sharding),
    )
    if hardware.sharding:
        options["model_init_kwargs"] = {"device_map": None}  # else TRL spreads the reference over all GPUs
    if section.reference.reset_every:
        options |= dict(
            sync_ref_model=True,
            ref_model_sync_steps=section.reference.reset_every,
            ref_model_mixup_alpha=section.reference.mix,
        )
    options |= (objective.constants if isinstance(objective, TrlLoss) else {}) | section.trl
    if section.keeps_reference and not options["beta"]:
        options["beta"] = 1.0  # TRL makes a reference only if beta > 0; the real weight is PolicyLossTrainer's `kl`
    try:
        config = GRPOConfig(**options)
    except (TypeError, ValueError) as error:
        raise RecipeError(f"TRL's GRPOConfig does not accept [train.trl] {section.trl}: {error}") from error
    if section.group_size == 1:
        config.num_generations = 1  # TRL's trainer supports 1; only the check in GRPOConfig rejects it
    return config


def check_trl_options(section: TrainSection, config: GRPOConfig) -> None:
    """Check early those options that TRL and transformers would reject only after the model is loaded, or at the first
    step.

    Raises: RecipeError naming the option.
    """
    for key, value in section.trl.items():
        default = GRPOConfig.__dataclass_fields__[key].default
        if isinstance(value, str) and isinstance(default, (bool, int, float)):
            raise RecipeError(f"[train.trl] {key} = {value!r} is text, but TRL expects a value such as {default!r}.")
    _check_sampling(section, config)
    try:
        get_reporting_integration_callbacks(config.report_to)
    except ValueError as error:
        raise RecipeError(f"[train.trl] report_to = {section.trl['report_to']!r} cannot be used: {error}") from error
    if missing := set(config.report_to) - set(get_available_reporting_integrations()):
        raise RecipeError(
            f"[train.trl] report_to names {', '.join(sorted(missing))}, which is not installed. Install it, or leave "
            "it out."
        )
    if not config.use_vllm:
        return
    if section.generation != "trl":
        raise RecipeError(
            "[train.trl] use_vllm = true has an effect only with train.generation = 'trl'. Set that, or leave "
            "use_vllm out."
        )
    if not is_vllm_available():
        raise RecipeError(
            "[train.trl] use_vllm = true needs the package vllm, which is not installed. Install it, or leave "
            "use_vllm out."
        )


def _check_sampling(section: TrainSection, config: GRPOConfig) -> None:
    """Check that sampling is not truncated: the importance ratio assumes tokens from the model's distribution."""
    given = {name: getattr(config, name) for name in _UNTRUNCATED} | (config.generation_kwargs or {})
    for name, neutral in _UNTRUNCATED.items():
        if section.steps and given[name] not in (neutral, None):
            key = "episode.top_p" if name == "top_p" and "top_p" not in section.trl else f"train.trl.{name}"
            raise RecipeError(
                f"{key} = {given[name]} is not possible in training: tokens must be sampled from the model's full "
                "distribution, because the loss uses its probabilities. Leave it out, or set episode.temperature, "
                "which the loss accounts for."
            )
