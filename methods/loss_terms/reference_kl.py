"""The distance from the reference model, turn by turn."""

from __future__ import annotations

import torch

from agentgym import CreditError
from agentgym.options import Share
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(reference=True))
def reference_kl(tokens: TokenBatch, *, decay: Share = 1.0, first_attempt: bool = False) -> torch.Tensor:
    """KL(pi, reference) per token, averaged first over each turn and then over turns; estimated as in `train.kl`.

    Every turn has the same weight, whatever its length; `train.kl` gives every token the same weight.

    Args:
        decay: turn k has weight decay^k: below 1, the policy may move further from the reference in later turns.
        first_attempt: only the turns of the first of several attempts count, so that the policy stays near the
            reference there and learns what to do in the next one.

    Source: our own form. `first_attempt` keeps the first attempt near the reference, as the first stage of SCoRe does,
        Kumar et al. 2024, arXiv:2409.12917. SCoRe takes the KL of the whole attempt, this term a mean per token, so
        their coefficients differ by about the number of tokens of the attempt. SCoRe's coefficients were not checked.
    """
    means, taken = tokens.turn_means(tokens.reference_kls())
    turns = torch.arange(means.shape[1], device=means.device)
    weights = taken * decay ** turns.to(means)
    if first_attempt:
        if tokens.first_attempt_turns is None:
            raise CreditError(
                "reference_kl(first_attempt=True) needs `first_attempt_turns`, which this batch does not have. Play "
                "several attempts, or leave first_attempt out."
            )
        weights = weights * (turns < tokens.first_attempt_turns[:, None])
    return (means * weights).sum(1) / weights.sum(1).clamp(min=1e-12)
