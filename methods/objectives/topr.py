"""TOPR: off-policy REINFORCE with importance weights only where the advantage is negative."""

from __future__ import annotations

import torch

from agentgym.options import Positive
from agentgym.training.objectives import TokenBatch


def topr(tokens: TokenBatch, *, max_ratio: Positive = 1.0) -> torch.Tensor:
    """-w A log pi, with w = 1 where A >= 0, else pi/mu of the whole episode, between 0 and `max_ratio`.

    Old failures weigh less and less as the policy moves away from them, so their loss stays bounded. Successes keep
    weight 1. The paper has one A for each episode; here every turn has its own.

    Source: Le Roux et al. 2025, arXiv:2503.14286.
    """
    ratio = tokens.row_log_ratios().detach().exp().clamp(max=max_ratio)[:, None]
    weights = torch.where(tokens.advantages < 0, ratio, torch.ones_like(ratio))
    return tokens.per_row(-weights * tokens.advantages * tokens.logps)
