"""The copy of a model that samples while the model itself is trained."""

from __future__ import annotations

import copy
from typing import Any

from agentgym.training.model.plain_forward import plain_forward


def sampling_copy(model: Any) -> Any:
    """Return a copy to sample from, in eval mode, for `TransformersPolicy.update_weights`.

    A trainer changes the mode of its model, its hooks and, in the middle of an optimiser step, its weights. A copy
    costs the memory of the weights that are trained; those that are not, as beneath a LoRA adapter, are shared.

    Its parameters require gradients as the model's do, though none is computed: torch multiplies by a matrix that
    requires a gradient in another way, and the last bits differ.
    """
    shared = {id(parameter): parameter for parameter in model.parameters() if not parameter.requires_grad}
    with plain_forward(model):
        return copy.deepcopy(model, shared).eval()
