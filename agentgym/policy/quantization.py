"""Weights in 4 or 8 bits, by bitsandbytes."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from agentgym.errors import MissingExtraError
from agentgym.extras import install_command


def quantization_config(name: str) -> Any:
    """The configuration for `from_pretrained`: "nf4" (4 bits, itself quantised scales) or "int8".

    Source of nf4: Dettmers et al., "QLoRA", arXiv 2305.14314.
    Raises: MissingExtraError without bitsandbytes.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtraError(
            f"quantization = {name!r} needs the package bitsandbytes: {install_command('quantized')}."
        )
    if name == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16 if torch.cuda.is_available() else torch.float32,
    )
