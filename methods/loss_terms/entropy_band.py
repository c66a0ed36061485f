"""A penalty on turns in which the policy is too certain or too uncertain."""

from __future__ import annotations

import torch

from agentgym.options import Weight
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(past_entropies=True))
def entropy_band(
    tokens: TokenBatch, *, low: Weight = 0.0, high: Weight = float("inf"), relative: bool = False
) -> torch.Tensor:
    """(low - H)^2 below the band and (H - high)^2 above it, averaged over an episode's turns.

    H is the mean entropy of a turn's tokens, in nats. Inside the band there is no gradient.

    Args:
        relative: low and high are factors of the mean entropy that turns of the same index had in earlier steps. There
            is no penalty in the first step, or at turns that no earlier step reached.

    Source: the entropy band of EPO, Xu et al. 2025, arXiv:2509.22576; relative, its factors are 0.8 and 1.2 and its
    weight 0.1. EPO compares with the mean of a window of steps, and its released penalty has no gradient; ours has.
    """
    means, taken = tokens.turn_means(tokens.entropies)
    if relative:
        usual = _usual(tokens, means)
        taken = taken * ~usual.isnan()
        usual = usual.nan_to_num(0.0)
        floor, ceiling = low * usual, (high * usual).nan_to_num(float("inf"))
    else:
        floor, ceiling = torch.full_like(means, low), torch.full_like(means, high)
    outside = (floor - means).relu() ** 2 + (means - ceiling).relu() ** 2
    return (outside * taken).sum(1) / taken.sum(1).clamp(min=1)


def _usual(tokens: TokenBatch, means: torch.Tensor) -> torch.Tensor:
    """(K,) the mean entropy in earlier steps of each turn in the batch; NaN if unknown."""
    usual = means.new_full((means.shape[1],), float("nan"))
    if (known := tokens.usual_entropies) is not None:
        count = min(len(known), len(usual))
        usual[:count] = known[:count].to(usual)
    return usual
