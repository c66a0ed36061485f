"""Models in memory and in folders: where they run, how they are read, and how they are written whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.checkpoint import load_checkpoint, load_weights


def load_model(source: str | Path, device: str) -> tuple[Any, Any]:
    """The checkpoint to train, in full precision, and its tokenizer or processor.

    Raises: RecipeError if it cannot be loaded.
    """
    try:
        return load_checkpoint(source, device=device, dtype=torch.float32)
    except PolicyError as error:
        raise RecipeError(f"policy.path cannot be loaded. {error}") from error


def load_state(source: Path) -> dict[str, Any]:
    """The weights of a checkpoint that training wrote."""
    state: dict[str, Any] = load_weights(source, dtype=torch.float32).state_dict()
    return state


def tokenizer_of(reader: Any) -> Any:
    """The tokenizer: itself, or that of a processor."""
    return getattr(reader, "tokenizer", reader)


def save_atomically(model: Any, reader: Any, folder: Path) -> None:
    """Save a model and its tokenizer or processor so that the folder exists only once everything in it is written."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial)
    reader.save_pretrained(partial)
    partial.rename(folder)
