"""Load a checkpoint: the model and its tokenizer or, if the model reads images, its processor."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

from agentgym.errors import PolicyError


def load_checkpoint(source: str | Path, *, device: str, dtype: Any, sees: bool | None = None) -> tuple[Any, Any]:
    """Load a model from a folder, or by the name of a hub model that is cached here or may be downloaded.

    Args:
        device, dtype: as `device_of` and `dtype_of` give them.
        sees: whether to read it as a model of images and text; by default what its configuration says.

    Returns: the model on its device, and its tokenizer, or its processor if it reads images.
    Raises: PolicyError if a part of the checkpoint is missing or cannot be read.
    """
    try:
        sees = _sees(source) if sees is None else sees
        reader = (AutoProcessor if sees else AutoTokenizer).from_pretrained(source)
        if sees:  # older checkpoints have the template where only the processor looks
            reader.tokenizer.chat_template = getattr(reader, "chat_template", None) or reader.tokenizer.chat_template
        model = load_weights(source, dtype=dtype, sees=sees)
    except (OSError, ValueError, ImportError, AttributeError) as error:
        raise PolicyError(
            f"No {'vision ' if sees else ''}model can be loaded from {str(source)!r}: "
            f"{shorten(str(error), 400, placeholder=' ...')} Give a folder written by save_pretrained (config.json, "
            f"weights, {'processor' if sees else 'tokenizer'}), or a hub name."
            + (" Processors that also read videos, as Qwen-VL's, need the package torchvision." if sees else "")
        ) from error
    return model.to(device), reader


def load_tokenizer(source: str | Path) -> Any:
    """The tokenizer alone, from a folder or by the name of a hub model. Raises: PolicyError if there is none."""
    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise PolicyError(
            f"No tokenizer can be loaded from {str(source)!r}: {shorten(str(error), 400, placeholder=' ...')}"
        ) from error


def load_weights(source: str | Path, *, dtype: Any, sees: bool | None = None) -> Any:
    """The model alone, on the CPU. Raises: what transformers raises."""
    sees = _sees(source) if sees is None else sees
    return (AutoModelForImageTextToText if sees else AutoModelForCausalLM).from_pretrained(source, dtype=dtype)


def _sees(source: str | Path) -> bool:
    return hasattr(AutoConfig.from_pretrained(source), "vision_config")
