"""StableReinforce: PPO's surrogate with a ratio that cannot overflow, ignoring outlying advantages."""

from __future__ import annotations

import torch

from agentgym.options import Positive
from agentgym.training.objectives import TokenBatch

LOG_1000 = 6.907755278982137
"""The default bound on log-ratios: ratios stay between 1/1000 and 1000."""


def stable_reinforce(
    tokens: TokenBatch,
    *,
    epsilon: Positive = 0.2,
    max_log_ratio: Positive = LOG_1000,
    max_advantage: Positive = 3.0,
) -> torch.Tensor:
    """-min(R A, clip(R, 1 - epsilon, 1 + epsilon) A), R = exp(clip(log pi/mu, -+ max_log_ratio)); 0 where |A| is large.

    The log-ratio is clipped before the exponential, which otherwise overflows and makes the loss infinite for A < 0.
    Tokens whose |A| exceeds `max_advantage` are ignored. The bound is in standard deviations if the estimator's
    advantages are, as with `reinforce_pp`.

    Source: R1-Reward, Zhang et al. 2025, arXiv:2505.02835, and its released code, which has the default bounds. There
        |A| is bounded around the mean of the advantages before they were standardised, here around 0.
    """
    ratio = (tokens.logps - tokens.behaviour_logps).clamp(-max_log_ratio, max_log_ratio).exp()
    surrogate = torch.min(ratio * tokens.advantages, ratio.clamp(1 - epsilon, 1 + epsilon) * tokens.advantages)
    return tokens.per_row(-surrogate * (tokens.advantages.abs() <= max_advantage))
