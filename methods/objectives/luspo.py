"""LUSPO: GSPO without its division by the length of the episode."""

from __future__ import annotations

import torch

from agentgym.options import Positive
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss

from .gspo import sequence_surrogate


@define_loss(LossRequirements(average="none"))
def luspo(tokens: TokenBatch, *, epsilon: Positive = 2e-3, epsilon_high: Positive = 2.5e-3) -> torch.Tensor:
    """-min(s A, clip(s, 1 - epsilon, 1 + epsilon_high) A), summed over each episode's own tokens; s as in `gspo`.

    GSPO divides by the number of tokens, so a token of a long episode counts for less. Here all tokens count equally.

    Source: LUSPO, arXiv:2602.05261, with the token's gradient of GSPO-token so that every turn keeps its own advantage;
        the constants as in section 5.1.
    """
    return tokens.per_row(sequence_surrogate(tokens, epsilon, epsilon_high), "none")
