"""A penalty where the policy is too sure of a turn, or too unsure."""

from __future__ import annotations

import torch

from agentgym.credit.options import Weight
from agentgym.training.objectives.contract import TokenBatch


def entropy_band(tokens: TokenBatch, *, low: Weight = 0.0, high: Weight = float("inf")) -> torch.Tensor:
    """(low - H)^2 below the band and (H - high)^2 above it, averaged over an episode's turns.

    H is the mean entropy of a turn's tokens, in nats. Inside the band there is no gradient.

    Source: the entropy band of EPO, Xu et al. 2025, arXiv:2509.22576, which follows a running mean; this one is fixed.
    """
    count = int(tokens.turns.max()) + 1
    if count <= 0:
        return tokens.logps.sum(1) * 0.0
    turns = tokens.turns.clamp(min=0)
    empty = tokens.entropies.new_zeros(len(turns), count)
    lengths = empty.scatter_add(1, turns, tokens.own.to(empty))
    means = empty.scatter_add(1, turns, tokens.entropies * tokens.own) / lengths.clamp(min=1)
    outside = (low - means).relu() ** 2 + (means - high).relu() ** 2
    taken = (lengths > 0).to(empty)
    return (outside * taken).sum(1) / taken.sum(1).clamp(min=1)
