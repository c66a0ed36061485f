"""Load the models that training starts from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.checkpoint import load_checkpoint, load_weights
from agentgym.storage import checkpoint_in


def load_model(source: str | Path, device: str) -> tuple[Any, Any]:
    """Load the checkpoint to train, in float32, and its processing class (a tokenizer or processor).

    Args:
        source: its folder, a run folder for the last checkpoint of that run, or the name of a hub model.
    Raises: RecipeError if it cannot be loaded.
    """
    try:
        return load_checkpoint(checkpoint_in(Path(source)) or source, device=device, dtype=torch.float32)
    except PolicyError as error:
        raise RecipeError(f"policy.path cannot be loaded. {error}") from error


def load_state(source: Path) -> dict[str, Any]:
    """Load the weights of a checkpoint that training wrote."""
    state: dict[str, Any] = load_weights(source, dtype=torch.float32).state_dict()
    return state


def tokenizer_of(processing_class: Any) -> Any:
    """Return the tokenizer: the processing class itself, or that of a processor."""
    return getattr(processing_class, "tokenizer", processing_class)
