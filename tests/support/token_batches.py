"""Batches of tokens for objectives."""

from __future__ import annotations

import torch

from agentgym.training.objectives import TokenBatch


def batch_of(logits: torch.Tensor, *, behaviour: torch.Tensor | None = None) -> TokenBatch:
    """Two episodes of four tokens over five words. The second has two turns, and a result between them."""
    logps = logits.log_softmax(-1)
    chosen = logps[..., 0]
    return TokenBatch(
        logps=chosen,
        entropies=-(logps.exp() * logps).sum(-1),
        own=torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]]),
        advantages=torch.tensor([[1.5] * 4, [-0.5, 0.0, 2.0, 2.0]], dtype=logits.dtype),
        behaviour_logps=chosen.detach() if behaviour is None else behaviour,
        reference_logps=chosen.detach() - 0.3,
        turns=torch.tensor([[0, 0, 0, -1], [0, -1, 1, 1]]),
        returns=torch.tensor([1.0, -1.0], dtype=logits.dtype),
        max_length=8,
        groups=torch.zeros(2, dtype=torch.long),
        group_returns=torch.tensor([[1.0, -1.0]] * 2, dtype=logits.dtype),
        group_successes=torch.tensor([[1.0, 0.0]] * 2, dtype=logits.dtype),
        outcomes={"success": torch.tensor([1.0, 0.0], dtype=logits.dtype)},
    )
