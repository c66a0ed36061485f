"""The distance from the reference model, turn by turn."""

from __future__ import annotations

import torch

from agentgym import CreditError
from agentgym.credit import Decay
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss, k3


@define_loss(LossRequirements(reference=True))
def reference_kl(tokens: TokenBatch, *, decay: Decay = 1.0, first_attempt: bool = False) -> torch.Tensor:
    """The mean over turns of KL(pi, reference) per token of the turn, by the estimate r - 1 - log r.

    Each turn counts alike however long it is, where `train.kl` weighs each token alike.

    Args:
        decay: turn k counts decay^k: below 1 the policy may move further from the reference the later it is.
        first_attempt: only the turns of the first of several attempts count, so that the policy stays near the
            reference there and learns what to do in the next one.

    Source: our own form; the estimate k3 is Schulman 2020, http://joschu.net/blog/kl-approx.html. `first_attempt` is
    what keeps the first attempt in place in the first stage of SCoRe, Kumar et al. 2024, arXiv:2409.12917. There it is
    the KL of the whole attempt, here that of a token, so weights differ by the length; its weights were not checked.
    """
    means, taken = tokens.turn_means(k3(tokens.reference_gaps()))
    turns = torch.arange(means.shape[1], device=means.device)
    weights = taken * decay ** turns.to(means)
    if first_attempt:
        if tokens.first_attempt_turns is None:
            raise CreditError("reference_kl(first_attempt=True) needs `first_attempt_turns`, which this batch lacks.")
        weights = weights * (turns < tokens.first_attempt_turns[:, None])
    return (means * weights).sum(1) / weights.sum(1).clamp(min=1e-12)
