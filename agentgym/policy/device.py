"""Choose the device and the data type of a local model."""

from __future__ import annotations

from textwrap import shorten
from typing import Any

import torch

from agentgym.errors import PolicyError


def device_of(requested: str) -> str:
    """Resolve `auto` to a GPU if there is one, else the CPU. Raises: PolicyError for a device that is not available."""
    if requested == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=requested)
    except (RuntimeError, AssertionError) as error:
        reason = shorten(str(error), 90, placeholder=" ...")
        raise PolicyError(
            f"device = {requested!r} cannot be used: {reason}. Write cpu, cuda, cuda:N, or auto (which takes a GPU if "
            "there is one)."
        ) from error
    return requested


def dtype_of(requested: str, device: str) -> Any:
    """Return the dtype for `from_pretrained`. `auto`: float32 on a CPU, the checkpoint's dtype elsewhere."""
    if requested == "auto":
        return torch.float32 if device == "cpu" else "auto"
    dtype = getattr(torch, requested, None)
    if not isinstance(dtype, torch.dtype):
        raise PolicyError(f"dtype = {requested!r} is not a dtype of torch. Write float32, bfloat16, float16 or auto.")
    return dtype
