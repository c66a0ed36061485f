"""A bonus for the entropy of the policy."""

from __future__ import annotations

import torch

from agentgym.training.objectives import TokenBatch


def entropy_bonus(tokens: TokenBatch) -> torch.Tensor:
    """Minus the entropy of the policy at the agent's tokens, in nats: keeps the policy from settling too early.

    Source: Williams and Peng 1991, https://doi.org/10.1080/09540099108946587.
    """
    return tokens.per_row(-tokens.entropies)
