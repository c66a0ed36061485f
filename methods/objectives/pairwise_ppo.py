"""PPO on pairs: make the better of two episodes of a group likelier, relative to the worse one."""

from __future__ import annotations

import torch

from agentgym.options import Positive
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(advantages=False, group_outcomes=True, whole_groups=True))
def pairwise_ppo(tokens: TokenBatch, *, component: str = "success", epsilon: Positive = 0.2) -> torch.Tensor:
    """PPO's clipped surrogate for each pair of episodes: the ratio is i's pi/mu over j's, the advantage is P - 1/2.

    P = 1/2 + (c_i - c_j) / 2 is the chance that i beats j, c an outcome component between 0 and 1. Each pair with
    different c counts once, for the better episode, and all groups have the same weight. Adding a constant to the
    component of all episodes of a task changes nothing.

    Args:
        component: for example `preference` of the reward `pairwise_judge`, which with `against = "all"` is the share of
            the others that an episode beat. Verdicts on single pairs are not recorded, so P follows the shares.

    Source: our own form of pairwise PPO (Wu et al. 2023, arXiv:2310.00212, whose pairs have the difference of rewards
    as the advantage). Not checked against its code.
    """
    values = tokens.outcome(component)
    judged = ~values.isnan()
    values, log_ratios = values.nan_to_num(0.0), tokens.row_log_ratios()
    advantages = (values[:, None] - values[None]).clamp(min=0.0, max=1.0) / 2
    advantages = advantages * (judged[:, None] & judged[None])
    ratios = (log_ratios[:, None] - log_ratios[None]).clamp(max=20.0).exp()
    surrogates = torch.min(ratios * advantages, ratios.clamp(1 - epsilon, 1 + epsilon) * advantages)
    return -surrogates.sum(1) / (judged.sum() - 1).clamp(min=1)
