"""Applies the output layer only to the trained tokens.

TRL's fused head does so only on GPUs with Triton. Elsewhere it projects every position onto the vocabulary, including
prompts, results and padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from agentgym.policy.adapters import own_model
from agentgym.policy.separate_rows import PER_TOKEN
from agentgym.policy.token_masks import TokenMasks
from agentgym.training.loss.frozen_head import frozen_head
from agentgym.training.loss.shared_prefixes import prefixes_shared

_NO_LABEL = -100


def project_labelled_only(model: Any, masks: TokenMasks | None = None) -> None:
    """Make a model with TRL's fused head project only the positions whose next token has a label.

    Args:
        model: a model after `trl.trainer.utils.add_fused_lm_head`, with or without an adapter.
        masks: the masks of tokens that a logit hook restricted, for the rows of each forward pass.
    """
    own = own_model(model)
    fused_forward = own.forward

    @wraps(fused_forward)
    def forward(*args: Any, fused_lm_head: bool = False, labels: torch.Tensor | None = None, **options: Any) -> Any:
        if not fused_lm_head or labels is None:
            return fused_forward(*args, fused_lm_head=fused_lm_head, labels=labels, **options)
        next_tokens = labels[:, 1:]
        scored = next_tokens != _NO_LABEL
        if not scored.any():
            scored[0, 0] = True  # adds nothing to the loss, but keeps it connected to the weights
        labels = next_tokens[scored][None]
        with prefixes_shared(model), _last_hidden_states(own.base_model, scored) as hidden, frozen_head():
            outputs = fused_forward(*args, fused_lm_head=True, shift_labels=labels, **options)
        if masks is not None:
            masks.apply(own, outputs, hidden[0], scored, labels)
        for name in PER_TOKEN:
            if (values := getattr(outputs, name)) is not None:
                setattr(outputs, name, values.new_zeros(scored.shape).masked_scatter(scored, values))
        return outputs

    own.forward = forward


@contextmanager
def own_forward_restored(model: Any) -> Iterator[None]:
    """Restore the model's forward pass on leaving, removing a fused head that a trainer added inside the block.

    Otherwise a copy of the model would compute with the original's weights.
    """
    own = own_model(model)
    before = vars(own).get("forward")
    try:
        yield
    finally:
        vars(own).pop("forward", None)
        if before is not None:
            own.forward = before


@contextmanager
def _last_hidden_states(backbone: Any, scored: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """Make a backbone, inside the block, return only the scored positions' last hidden states, as one row.

    Yields: a list to which these states are appended.
    """
    selected: list[torch.Tensor] = []

    def select(_: Any, __: Any, outputs: Any) -> Any:
        outputs.last_hidden_state = outputs.last_hidden_state[:, :-1][scored.to(outputs.last_hidden_state.device)][None]
        selected.append(outputs.last_hidden_state)
        return outputs

    hook = backbone.register_forward_hook(select)
    try:
        yield selected
    finally:
        hook.remove()
