"""The distance from the reference model, turn by turn."""

from __future__ import annotations

import torch

from agentgym.credit.options import Decay
from agentgym.training.objectives.contract import Needs, TokenBatch, define_loss, k3


@define_loss(Needs(reference=True))
def reference_kl(tokens: TokenBatch, *, decay: Decay = 1.0) -> torch.Tensor:
    """The mean over turns of KL(pi, reference) per token of the turn, by the estimate r - 1 - log r.

    Each turn counts alike however long it is, where `train.kl` weighs each token alike.

    Args:
        decay: turn k counts decay^k: below 1 the policy may move further from the reference the later it is.

    Source: our own form; the estimate k3 is Schulman 2020, http://joschu.net/blog/kl-approx.html.
    """
    means, taken = tokens.turn_means(k3(tokens.reference_gaps()))
    weights = taken * decay ** torch.arange(means.shape[1], device=means.device, dtype=means.dtype)
    return (means * weights).sum(1) / weights.sum(1).clamp(min=1e-12)
