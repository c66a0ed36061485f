"""Weights in 4 bits, by bitsandbytes.

The package's 8-bit form is not offered: it also rounds activations, differently in each batch, so that sampling and
training differ by 2e-3 nats a token.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from agentgym._imports import install_command
from agentgym.errors import MissingExtraError


def quantization_config() -> Any:
    """Return the configuration of nf4 for `from_pretrained`, with quantised scales.

    Source: Dettmers et al., "QLoRA", arXiv 2305.14314.
    Raises: MissingExtraError without bitsandbytes.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtraError(f"quantization = 'nf4' needs the package bitsandbytes: {install_command('quantized')}.")
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16 if torch.cuda.is_available() else torch.float32,
    )


def sample_as_in_training(model: Any) -> None:
    """Make a quantised model compute in the same way in sampling and in training.

    On a processor with AVX512-BF16, bitsandbytes repacks the weights at the first forward pass without gradients, and
    computes in bfloat16 from then on; layers narrower than a block of 64 weights then fail. This is turned off.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
