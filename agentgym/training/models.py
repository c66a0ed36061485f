"""Models in memory and in folders: where they run, how they are read, and how they are written whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentgym.errors import RecipeError


def device_of(wanted: str) -> str:
    """What `auto` means here: a GPU when there is one."""
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return wanted


def load_model(source: str | Path, device: str) -> tuple[Any, Any]:
    """A checkpoint from a local folder or, where there is one, the hub."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"policy.path = {str(source)!r} cannot be loaded as a causal language model: {str(error).splitlines()[0]}"
        ) from error
    return model.to(device), tokenizer


def save_whole(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save so that the folder exists only once everything in it is written."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)
