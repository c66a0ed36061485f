"""On-policy distillation: the teacher scores what the agent itself wrote."""

from __future__ import annotations

from typing import Literal

import torch

from agentgym import CreditError
from agentgym.options import Weight
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss


@define_loss(LossRequirements(teacher=True))
def teacher_kl(
    tokens: TokenBatch,
    *,
    estimate: Literal["k2", "k3"] = "k2",
    mask: Literal["none", "response", "group"] = "none",
    gate: str = "",
    threshold: Weight = 0.5,
) -> torch.Tensor:
    """R^2 / 2 for each own token, R = log teacher - log pi: its gradient is that of KL(pi, teacher).

    [train.teacher] names the teacher. The loss and its gradient are 0 where teacher and policy agree.

    Args:
        estimate: "k3" is exp(R) - 1 - R, whose gradient is that of KL(teacher, pi) at the teacher's tokens.
        mask: "response" leaves out successful episodes, "group" leaves out groups with a success.
        gate, threshold: use only episodes whose outcome component `gate` reaches the threshold; "" uses all.

    Source: k2 and k3, Schulman 2020, http://joschu.net/blog/kl-approx.html; the masks and the gate as
    features of published systems describe them (on-policy distillation beside reinforcement), not checked against code.
    """
    if tokens.teacher_logps is None:
        raise CreditError("teacher_kl needs the log-probabilities of a teacher. Name one in [train.teacher].")
    gaps = (tokens.teacher_logps - tokens.logps) * tokens.own
    values = gaps**2 / 2 if estimate == "k2" else gaps.exp() - 1 - gaps
    counts = torch.ones_like(tokens.returns)
    if mask == "response":
        counts = counts * ~(tokens.successes > 0)
    elif mask == "group":
        counts = counts * ~(tokens.group_successes > 0).any(1)
    if gate:
        counts = counts * (tokens.outcome(gate) >= threshold)
    return tokens.per_row(values) * counts
