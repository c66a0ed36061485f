"""NFT: supervised learning from successes and, through the policy that they imply, from failures."""

from __future__ import annotations

from typing import Literal

import torch

from agentgym.options import Share
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(advantages=False, group_outcomes=True))
def nft(tokens: TokenBatch, *, floor: Share = 1.0, weigh: Literal["root", "failures", "none"] = "root") -> torch.Tensor:
    """-w [r log R + (1 - r) log((1 - q R) / (1 - q))] per token: R = pi/mu, r the success, q its mean over the group.

    A failure maximises the likelihood under the policy that remains when the successes are removed from mu. If (1 - q
    R) / (1 - q) is below `floor`, it is raised to `floor` and keeps its gradient. Groups in which all or none succeed
    contribute nothing. On policy, with w "root", the gradient equals GRPO's with standard deviations of ddof 0.

    Args:
        weigh: w is sqrt((1 - q) / q) for "root", 1 - q for "failures", else 1.

    Source: Chen et al. 2025, arXiv:2505.18116, eq. 8 and 10; the forms of w and the raised argument as in the authors'
    code (NVlabs/NFT, dp_actor.py). That code keeps q between 0.02 and 0.98; here this is left out, because groups in
    which q is 0 or 1 contribute nothing.
    """
    succeeded, rate = tokens.successes.nan_to_num(0.0), tokens.success_rates.nan_to_num(0.0)
    mixed = (rate > 0) & (rate < 1)
    rate = torch.where(mixed, rate, torch.full_like(rate, 0.5))
    log_ratio = ((tokens.logps - tokens.behaviour_logps) * tokens.own).clamp(max=10.0)
    remaining = (1 - rate[:, None] * log_ratio.exp()) / (1 - rate[:, None])
    raised = remaining + (remaining.clamp(min=max(floor, 1e-3)) - remaining).detach()
    weight = {"root": ((1 - rate) / rate).sqrt(), "failures": 1 - rate, "none": torch.ones_like(rate)}[weigh]
    gain = succeeded[:, None] * log_ratio + (1 - succeeded[:, None]) * raised.log()
    return tokens.per_row(-(weight * mixed)[:, None] * gain)
