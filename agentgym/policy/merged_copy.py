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
        self._merged: list[tuple[Any, torch.nn.Parameter]] = []
        self.model = self._plain(own_model(source)).eval()
        self._weights: Hashable = None

    def refresh(self, weights: Hashable) -> None:
        """Copy the weights as they are now, unless `weights`, a key of the source's weights, equals the last one."""
        if weights == self._weights:
            return
        with torch.no_grad():
            for layer, weight in self._merged:
                is_adapted = isinstance(layer, LoraLayer)
                weight.copy_(
                    layer.get_base_layer().weight + layer.get_delta_weight(ADAPTER) if is_adapted else layer.weight
                )
        self._weights = weights

    def _plain(self, module: Any) -> Any:
        """Return a copy of a module that shares its tensors, with plain layers in place of adapted ones."""
        is_adapted = isinstance(module, LoraLayer)
        plain = copy.copy(module.get_base_layer() if is_adapted else module)
        vars(plain).pop("forward", None)  # a trainer has set it for the source only
        plain._modules = {name: child and self._plain(child) for name, child in plain._modules.items()}
        is_cast = self._autocast is not None and type(plain) is torch.nn.Linear
        if is_adapted or is_cast:
            dtype = self._autocast if is_cast else plain.weight.dtype
            weight = torch.nn.Parameter(plain.weight.detach().to(dtype, copy=True), requires_grad=False)
            plain._parameters = {**plain._parameters, "weight": weight}
            if is_adapted or module.weight.requires_grad:
                self._merged.append((module, weight))
        return plain
