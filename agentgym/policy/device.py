"""Choose the device and the data type of a local model."""

from __future__ import annotations

import time
from textwrap import shorten
from typing import Any

import torch

from agentgym.errors import PolicyError

_MATRIX, _ROUNDS = 512, 5
_WORTH_IT = 2.0
"""The least speed-up at which bfloat16 is chosen; our choice. AMX reaches 6."""


def device_of(requested: str) -> str:
    """Resolve `auto` to a GPU if there is one (CUDA, or MPS on a Mac), else the CPU.

    Raises: PolicyError for a device that is not available.
    """
    if requested == "auto":
        gpus = ("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())
        return next((name for name, available in gpus if available), "cpu")
    try:
        torch.empty(0, device=requested)
    except (RuntimeError, AssertionError) as error:
        reason = shorten(str(error), 90, placeholder=" ...")
        raise PolicyError(
            f"device = {requested!r} cannot be used: {reason}. Write cpu, cuda, cuda:N, mps, or auto (which takes a "
            "GPU if there is one)."
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


def bfloat16_speed_up() -> float:
    """Measure how many times faster the processor multiplies matrices in bfloat16 than in float32."""

    def seconds(dtype: torch.dtype) -> float:
        matrix, times = torch.ones(_MATRIX, _MATRIX, dtype=dtype), []
        for _ in range(_ROUNDS):
            started = time.perf_counter()
            matrix @ matrix
            times.append(time.perf_counter() - started)
        return min(times)

    return seconds(torch.float32) / seconds(torch.bfloat16)


def computes_in_bfloat16(device: str) -> bool:
    """Return whether training on a device by default computes in bfloat16, with float32 weights.

    MPS does not, because it is untried. A CPU does so only if it has matrix tiles (AMX) and is measured to be at least
    twice as fast in bfloat16. CPUs without AMX never do: their speed-up is close to that bound, so a resumed run could
    measure a different answer.

    Args:
        device: torch's name of the device.
    """
    if device.startswith("mps"):
        return False
    return device != "cpu" or (has_matrix_tiles() and bfloat16_speed_up() >= _WORTH_IT)


def has_matrix_tiles() -> bool:
    """Return whether the processor has AMX; False if torch cannot tell."""
    is_supported = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(is_supported is not None and is_supported())
