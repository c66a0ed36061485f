"""Imitation of an expert beside reinforcement, as in CHORD."""

from __future__ import annotations

import math

import torch

from agentgym.options import Share
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(rows=("experts",), instead=True))
def expert_sft(tokens: TokenBatch, *, phi: bool = True, cutoff: Share = 1.0) -> torch.Tensor:
    """-phi log pi for each token of an expert's episodes of the step's tasks; phi = p (1 - p) has no gradient.

    The weight mu of this term is taken from the objective: (1 - mu) x objective + mu x this term, averaged over all
    expert tokens of the step. With mu = 1 and phi off, the loss is the warm start's loss at temperature 1.
    [train.experts] names the expert.

    Args:
        phi: weigh tokens by p (1 - p), so that tokens count little if the policy is sure of them, or would never write
            them.
        cutoff: tokens of a higher probability have no gradient.

    Source: Zhang et al. 2025, arXiv:2508.11408; phi, cutoff and the average as in Trinity-RFT, chord_policy_loss.py.
    There mu rises over a warm-up and then falls as a cosine. Do the same by `warmup`, and a schedule of shape "cosine"
    that begins after it.
    """
    probabilities = tokens.logps.detach().exp()
    logps = tokens.logps.clamp(max=math.log(cutoff)) if 0 < cutoff < 1 else tokens.logps
    weights = probabilities * (1 - probabilities) if phi else torch.ones_like(probabilities)
    return -(weights * logps * tokens.own).sum(1) / tokens.mean_length
