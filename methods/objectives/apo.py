"""A*-PO: regress the log-ratio to the reference onto the advantage of the best policy."""

from __future__ import annotations

import torch

from agentgym import CreditError
from agentgym.options import Positive
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(advantages=False, reference=True, optimal_values=True))
def apo(tokens: TokenBatch, *, beta: Positive = 1e-3) -> torch.Tensor:
    """(beta x log pi/pi_ref of the whole episode - (R - V*))^2, R its return and V* the optimal value of its task.

    V* = b log mean exp(R / b) over episodes that the reference plays before its task is trained on; [train.reference]
    sets their number, `episodes`, and b, `temperature`. The best policy near the reference has loss 0. An episode that
    the infrastructure failed has loss 0. No comparison is made, so groups of one suffice (`train.group_size = 1`, as in
    the paper).

    Source: Brantley et al. 2025, arXiv:2505.20686; b = 0.5, beta = 1e-3 and 8 episodes as in the authors' code.
    """
    if tokens.optimal_values is None:
        raise CreditError(
            "The objective apo needs optimal_values, which only a run with a recipe computes. Train it by agentgym "
            "train."
        )
    log_ratio = -tokens.reference_gaps().sum(1)
    target = tokens.returns - tokens.optimal_values
    valid = ~target.isnan()
    return (beta * log_ratio - target.nan_to_num(0.0)) ** 2 * valid
