"""Thought correction: beside reinforcement of the actions, imitation of what a corrector would have thought."""

from __future__ import annotations

import torch

from agentgym.training.objectives import Needs, TokenBatch, define_loss


@define_loss(Needs(rows=("corrections",)))
def thought_sft(tokens: TokenBatch) -> torch.Tensor:
    """-log pi of the tokens of corrected thoughts, each after what the agent saw at its turn; the mean over all tokens.

    [train.corrections] names the corrector, which reads the observation, the thought and the calls of a turn.

    Source: GTR, Wei et al. 2025, arXiv:2503.08525: cross-entropy on corrected thoughts beside PPO. From its abstract;
    not checked against its code.
    """
    return -(tokens.logps * tokens.own).sum(1) / tokens.mean_length
