"""GSPO: clip by the ratio of the whole episode, with the gradient and the advantage of each token."""

from __future__ import annotations

import torch

from agentgym.options import Positive
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(average="episode"))
def gspo(tokens: TokenBatch, *, epsilon: Positive = 3e-4, epsilon_high: Positive = 4e-4) -> torch.Tensor:
    """-min(s A, clip(s, 1 - epsilon, 1 + epsilon_high) A), averaged over each episode's own tokens.

    s has the value of (pi/mu of the whole episode)^(1 / number of its own tokens); its gradient at a token is s times
    the gradient of that token's log pi. So every turn keeps its own advantage. If all turns have the same advantage,
    the gradient is that of the episode's ratio. The constants suit this ratio, which stays much nearer to 1 than a
    token's ratio.

    Source: GSPO-token of Zheng et al. 2025, arXiv:2507.18071, eq. 13 and 14; the constants as in section 5.1.
    """
    return tokens.per_row(sequence_surrogate(tokens, epsilon, epsilon_high), "episode")


def sequence_surrogate(tokens: TokenBatch, epsilon: float, epsilon_high: float) -> torch.Tensor:
    """Return (B, T) -min(s A, clip(s) A): s has the value of the episode's ratio and the gradient of the token's."""
    of_episode = tokens.row_log_ratios() / tokens.own.sum(1).clamp(min=1)
    ratio = (of_episode.detach()[:, None] + tokens.logps - tokens.logps.detach()).exp()
    clipped = ratio.clamp(1 - epsilon, 1 + epsilon_high)
    return -torch.min(ratio * tokens.advantages, clipped * tokens.advantages)
