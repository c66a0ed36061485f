"""Critique-GRPO: a shaped ratio for episodes that were played with help and are trained on without it."""

from __future__ import annotations

import math

import torch

from agentgym.options import Positive
from agentgym.training.objectives import TokenBatch


def critique_grpo(tokens: TokenBatch, *, gamma: Positive = 0.1) -> torch.Tensor:
    """-f(pi) A for each token of a refinement, f(p) = p / (p + gamma); for all other tokens -(pi/mu) A, not clipped.

    A refinement was sampled with a critique in its prompt and is trained on without it, as with the gatherer `refined`
    and with `strip` of `guided` and `scaffolded`. For text that the policy would hardly write without help, the usual
    ratio (probability without help over probability with help) is near 0, and so is its gradient. f falls more slowly
    than p: its gradient is gamma p / (p + gamma)^2 times the gradient of log p, greatest at p = gamma. mu, the sampling
    probability, is not used for refinements, so do not add `off_policy` weights.

    Args:
        gamma: the probability at which a token of a refinement has the greatest gradient.

    Source: Critique-GRPO, Zhang et al. 2025, arXiv:2506.03106; formula, gamma 0.1 and no clip as in its released code
    (p_div_p_0.1, token level). It takes advantages without a standard deviation, as `dr_grpo` does.
    """
    ratio = (tokens.logps - tokens.behaviour_logps).exp()
    if tokens.help_removed is not None:
        shaped = torch.sigmoid(tokens.logps - math.log(gamma))
        ratio = torch.where(tokens.help_removed[:, None], shaped, ratio)
    return tokens.per_row(-ratio * tokens.advantages)
