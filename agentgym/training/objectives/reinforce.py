"""REINFORCE: the policy gradient as it is."""

from __future__ import annotations

import torch

from agentgym.training.objectives.contract import TokenBatch


def reinforce(tokens: TokenBatch) -> torch.Tensor:
    """-A log pi, without a ratio and without a clip: right for one optimiser step on each batch of episodes.

    Source: Williams 1992, https://doi.org/10.1007/BF00992696.
    """
    return tokens.per_row(-tokens.advantages * tokens.logps)
