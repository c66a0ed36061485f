"""The policy gradient as it is (REINFORCE), and clipped with a critic of turns (PPO)."""

from __future__ import annotations

import torch

from agentgym.options import Positive
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


def reinforce(tokens: TokenBatch) -> torch.Tensor:
    """-A log pi, without a ratio and without a clip: right for one optimiser step on each batch of episodes.

    Source: Williams 1992, https://doi.org/10.1007/BF00992696.
    """
    return tokens.per_row(-tokens.advantages * tokens.logps)


@define_loss(LossRequirements(critic=True, estimator="turn_gae"))
def ppo(tokens: TokenBatch, *, epsilon: Positive = 0.2, epsilon_high: Positive | None = None) -> torch.Tensor:
    """-min(R A, clip(R, 1 - epsilon, 1 + epsilon_high) A) for each token, with the advantage of its turn by a critic.

    A recipe that names no estimator gets `turn_gae`; it may name another one that requires a critic. The critic is a
    copy of the model with its own head, which is fitted to the returns after each batch; [train.signals] has the
    critic's options.

    Args:
        epsilon_high: None for `epsilon`.

    Source: Schulman et al. 2017, arXiv:1707.06347, with the turn as the step: Turn-PPO, arXiv:2512.17008.
    """
    high = epsilon if epsilon_high is None else epsilon_high
    ratio = (tokens.logps - tokens.behaviour_logps).exp()
    surrogate = torch.min(ratio * tokens.advantages, ratio.clamp(1 - epsilon, 1 + high) * tokens.advantages)
    return tokens.per_row(-surrogate)
