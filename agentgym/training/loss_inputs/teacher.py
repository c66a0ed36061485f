"""A second model that scores the tokens of a step: the teacher of on-policy distillation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model

from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.checkpoint import load_checkpoint, tokenizer_of
from agentgym.storage import checkpoint_in
from agentgym.training.loss.labelled_head import project_labelled_only


def load_teacher(path: str, tokenizer: Any, device: str) -> Any:
    """Load a teacher whose tokens are those of the policy.

    Args:
        path: a local checkpoint, a run folder, or a hub name. tokenizer: of the policy.
    Raises: RecipeError if it cannot be loaded, or if its vocabulary differs.
    """
    folder = checkpoint_in(Path(path))
    try:
        model, processing_class = load_checkpoint(path if folder is None else str(folder), device=device)
    except PolicyError as error:
        raise RecipeError(f"train.teacher.path cannot be loaded. {error}") from error
    if tokenizer_of(processing_class).get_vocab() != tokenizer.get_vocab():
        raise RecipeError(
            f"train.teacher.path = {path!r}: its vocabulary is not the policy's, so it cannot score its tokens."
        )
    return model.eval().requires_grad_(False)


def prepare_teacher(model: Any, trainer: Any) -> Any:
    """Let a teacher compute log-probabilities as the trainer's own model does."""
    disable_dropout_in_model(model)
    add_fused_lm_head(model, temperature=trainer.temperature, cast_lm_head_to_fp32=trainer.args.cast_lm_head_to_fp32)
    project_labelled_only(model, trainer.token_masks)
    return trainer.accelerator.prepare_model(model, evaluation_mode=True)


def teacher_logps(teacher: Any, trainer: Any, batch: dict[str, Any]) -> torch.Tensor:
    """(B, T) log-probabilities of a batch's own tokens under a prepared teacher."""
    ids, mask = (torch.cat([batch[f"prompt_{kind}"], batch[f"completion_{kind}"]], 1) for kind in ("ids", "mask"))
    with torch.no_grad():
        logps, *_ = trainer._get_per_token_logps_and_entropies(
            teacher, ids, mask, batch["completion_ids"].size(1), trainer.args.per_device_train_batch_size
        )
    scored: torch.Tensor = logps
    return scored
