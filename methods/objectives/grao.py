"""GRAO: imitate an expert's episode of the same task, and compare it within the policy's group."""

from __future__ import annotations

import torch

from agentgym.options import Weight
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(advantages=False, group_outcomes=True, rows=("policy", "experts")))
def grao(tokens: TokenBatch, *, imitation: Weight = 0.5, alignment: Weight = 0.6) -> torch.Tensor:
    """Minus A_i log pi(i) + imitation x A_y log pi(y) + alignment x A_i log(pi(i) / pi(y)), averaged over the group.

    A are the returns of the group's episodes i and the expert's y, minus their mean, divided by their standard
    deviation. The factor of log pi(y) is imitation x A_y - alignment x mean A_i. [train.experts] names the expert. A
    group without an expert episode is compared without one; a group with equal returns contributes nothing.

    Source: Wang et al. 2025, arXiv:2508.07750. From knowledge of the paper, including the two default weights; not
    checked against its code.
    """
    group, expert = tokens.group_returns, tokens.expert_returns
    of_expert = torch.full_like(tokens.returns, float("nan")) if expert is None else expert
    compared = torch.cat([group, of_expert[:, None]], 1)
    mean = compared.nanmean(1)
    deviation = ((compared - mean[:, None]) ** 2).nanmean(1).sqrt()

    def advantage(returns: torch.Tensor) -> torch.Tensor:
        return ((returns - mean) / (deviation + 1e-6)).nan_to_num(0.0)

    if tokens.rows == "policy":
        weight = (1 + alignment) * advantage(tokens.returns)
    else:
        weight = imitation * advantage(of_expert) - alignment * advantage(group.nanmean(1))
    return tokens.per_row(-weight[:, None] * tokens.logps)
