"""A copy of a model for sampling, which computes less for each token: no adapter's layers, no casts of weights."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from typing import Any

import torch
from peft.tuners.lora import LoraLayer

from agentgym.policy.adapters import ADAPTER, can_merge, has_adapter, own_model


def can_copy(model: Any, autocast: torch.dtype | None = None) -> bool:
    """Return whether a copy samples faster than the model: its adapter can be merged or, on a processor, its weights
    would be cast for each token.

    Of adapters this needs one that `can_merge` allows and that is plain LoRA, which only adds a product of two matrices
    to the weight of each adapted linear or embedding layer.

    Args:
        autocast: the torch dtype in which linear layers compute; None for that of their weights.
    """
    if not has_adapter(model):
        is_plain = all(type(parameter) is torch.nn.Parameter for parameter in model.parameters())  # not sharded
        is_on_processor = model.device.type in ("cpu", "meta") and not getattr(model, "is_quantized", False)
        return is_plain and is_on_processor and autocast not in (None, model.dtype)
    return can_merge(model) and all(
        type(layer.get_base_layer()) in (torch.nn.Linear, torch.nn.Embedding)
        and ADAPTER not in layer.lora_variant
        and not layer.lora_bias.get(ADAPTER, False)
        for layer in adapted_layers(model)
    )


def adapted_layers(model: Any) -> Iterator[Any]:
    """Yield the layers of a model that an adapter changes."""
    return (module for module in model.modules() if isinstance(module, LoraLayer))


_ROWS = 64
"""The number of rows for which weights are packed; a layout for fewer computes more rows with another rounding."""


class PackedLinear(torch.nn.Module):
    """A linear layer with a bfloat16 weight in the layout in which the processor multiplies.

    torch's own layer converts its weight in every pass, which with few rows is a third of the time.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self._bias = None if bias is None else bias.to(weight.dtype)
        self.pack(weight)

    def pack(self, weight: torch.Tensor) -> None:
        """Take another weight, [output size, input size]."""
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return [..., output size] in bfloat16. `states`: [..., input size]."""
        states = states.to(self._weight.dtype)
        return torch.ops.mkldnn._linear_pointwise(states, self._weight, self._bias, "none", [], "")


def packs(linear: torch.nn.Linear, dtype: torch.dtype) -> bool:
    """Return whether torch can pack the weight of a layer that computes in this dtype."""
    is_bfloat16 = linear.weight.device.type == "cpu" and dtype == torch.bfloat16
    return is_bfloat16 and torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class MergedCopy:
    """A model without an adapter that computes the same as its source, except for rounding.

    It shares all tensors that neither the adapter nor a cast changes. The source is never changed.

    Args:
        source: a model for which `can_copy` holds.
        autocast: the torch dtype in which linear layers compute; None for that of their weights. Weights are cast once;
            torch's autocast would cast them in every forward pass.

    Attributes:
        model: the copy, in eval mode.
    """

    def __init__(self, source: Any, autocast: torch.dtype | None = None) -> None:
        self.source, self._autocast = source, autocast
        self._merged: list[tuple[Any, Any]] = []  # layers of the source that change, with their copies
        self.model = self._plain(own_model(source)).eval()
        self._weights: Hashable = None

    def refresh(self, weights: Hashable) -> None:
        """Copy the weights as they are now, unless `weights`, a key of the source's weights, equals the last one."""
        if weights == self._weights:
            return
        with torch.no_grad():
            for layer, plain in self._merged:
                is_adapted = isinstance(layer, LoraLayer)
                weight = layer.get_base_layer().weight + layer.get_delta_weight(ADAPTER) if is_adapted else layer.weight
                if isinstance(plain, PackedLinear):
                    plain.pack(weight.to(self._autocast))
                else:
                    plain.weight.copy_(weight)
        self._weights = weights

    def _plain(self, module: Any) -> Any:
        """Return a copy of a module that shares its tensors, with plain layers in place of adapted ones."""
        is_adapted = isinstance(module, LoraLayer)
        plain = copy.copy(module.get_base_layer() if is_adapted else module)
        vars(plain).pop("forward", None)  # a trainer has set it for the source only
        plain._modules = {name: child and self._plain(child) for name, child in plain._modules.items()}
        cast_to = self._autocast if type(plain) is torch.nn.Linear else None
        if not is_adapted and cast_to is None:
            return plain
        weight = plain.weight.detach().to(cast_to or plain.weight.dtype, copy=True)
        if cast_to is not None and packs(plain, cast_to):
            plain = PackedLinear(weight, plain.bias)
        else:
            plain._parameters = {**plain._parameters, "weight": torch.nn.Parameter(weight, requires_grad=False)}
        if is_adapted or module.weight.requires_grad:
            self._merged.append((module, plain))
        return plain
