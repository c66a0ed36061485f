"""Models in memory and in folders: where they run, how they are read, and how they are written whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
)

from agentgym.errors import RecipeError


def load_model(source: str | Path, device: str) -> tuple[Any, Any]:
    """A checkpoint from a local folder or, where there is one, the hub.

    Returns: the model, and its tokenizer, or of a model that reads images its processor.
    """
    try:
        config = AutoConfig.from_pretrained(source)
        reader = (AutoProcessor if _sees(config) else AutoTokenizer).from_pretrained(source)
        model = _weights(source, config)
    except (OSError, ValueError, ImportError) as error:
        raise RecipeError(
            f"policy.path = {str(source)!r} cannot be loaded as a causal language model: {str(error).splitlines()[0]}"
        ) from error
    return model.to(device), reader


def load_state(source: Path) -> dict[str, Any]:
    """The weights of a checkpoint that training wrote."""
    state: dict[str, Any] = _weights(source, AutoConfig.from_pretrained(source)).state_dict()
    return state


def tokenizer_of(reader: Any) -> Any:
    """The tokenizer: itself, or that of a processor."""
    return getattr(reader, "tokenizer", reader)


def _sees(config: Any) -> bool:
    return hasattr(config, "vision_config")


def _weights(source: str | Path, config: Any) -> Any:
    kind = AutoModelForImageTextToText if _sees(config) else AutoModelForCausalLM
    return kind.from_pretrained(source, dtype=torch.float32)


def save_whole(model: Any, reader: Any, folder: Path) -> None:
    """Save a model and its tokenizer or processor so that the folder exists only once everything in it is written."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial)
    reader.save_pretrained(partial)
    partial.rename(folder)
