"""Compute plain LoRA layers under autocast without passes over wide tensors that peft makes.

peft casts a layer's input to the adapter's dtype, which autocast casts back, and scales the adapter's output, which is
as wide as the layer. Here the input is not cast, and the adapter's inner product, of its rank, is scaled.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from peft.tuners.lora import Linear


def use_thin_forward(model: Any) -> None:
    """Let the plain LoRA layers of a model compute with `thin_forward`."""
    for layer in model.modules():
        if type(layer) is Linear and not layer.lora_variant:
            layer.forward = partial(thin_forward, layer, layer.forward)  # type: ignore[method-assign]


def thin_forward(layer: Any, peft_forward: Any, x: torch.Tensor, *args: Any, **options: Any) -> Any:
    """Return what `peft_forward` does, up to rounding.

    Args:
        layer: a linear layer with a LoRA adapter. x: [..., inputs].
        args, options: with any of these, without autocast, or unless exactly one adapter is in use, peft computes.
    """
    names, device = layer.active_adapters, x.device.type
    is_plain = not (args or options or layer.disable_adapters or layer.merged or len(names) != 1)
    is_mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    if not is_plain or not is_mixed or names[0] not in layer.lora_A:
        return peft_forward(x, *args, **options)
    (name,) = names
    inner = layer.lora_A[name](layer.lora_dropout[name](x)) * layer.scaling[name]
    return layer.base_layer(x) + layer.lora_B[name](inner)
