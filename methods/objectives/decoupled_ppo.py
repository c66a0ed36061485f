"""Decoupled PPO: bound the step relative to the policy at the start of the update, however old the policy that sampled
the tokens.
"""

from __future__ import annotations

from typing import Literal

import torch

from agentgym.options import Positive, Share
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(corrects_old_policies=True))
def decoupled_ppo(
    tokens: TokenBatch,
    *,
    clip: Share = 0.2,
    max_weight: Positive = 5.0,
    proximal: Literal["start", "interpolated"] = "start",
    share: Share = 0.5,
) -> torch.Tensor:
    """-w min(u A, clip(u, 1 - clip, 1 + clip) A), w = proximal / behaviour, u = policy / proximal, of each token.

    Plain PPO clips against the sampling policy: the older it is, the more tokens are clipped before they have taught
    anything. Here w corrects for the sampling policy, and the clip bounds this update. On policy it equals PPO.

    Args:
        clip: largest distance of u from 1. `max_weight`: upper bound of w.
        proximal: the policy at the "start" of the update on this batch; or one "interpolated" between behaviour and
            policy, which needs no extra pass with several iterations, and pulls the clip towards the behaviour.
        share: position of the interpolated policy between behaviour and policy, in log-probabilities.
    Source: Hilton et al. 2022, arXiv:2110.00641, eq. 5; for language models AReaL, arXiv:2505.24298; interpolated:
        A-3PO, arXiv:2512.06547, which derives the share from each token's age. A constant share is our own choice.
    """
    now, behaviour = tokens.logps.detach(), tokens.behaviour_logps
    if proximal == "interpolated":
        start = behaviour + share * (now - behaviour)
    else:
        start = now if tokens.proximal_logps is None else tokens.proximal_logps
    own = tokens.own.bool()  # padding may be infinite after exp
    weights = torch.where(own, start - behaviour, 0.0).exp().clamp(max=max_weight)
    ratio = torch.where(own, tokens.logps - start, 0.0).exp()
    gain = torch.minimum(ratio * tokens.advantages, ratio.clamp(1 - clip, 1 + clip) * tokens.advantages)
    return tokens.per_row(-weights * gain)
