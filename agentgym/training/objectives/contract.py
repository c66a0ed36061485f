"""What objectives and loss terms are given, what they return, and how a recipe names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from agentgym import registry
from agentgym.errors import CreditError, ShapeError
from agentgym.reward import Schedule
from agentgym.training.named_parts import load_part, parse_part


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """The tokens of B episodes after their prompts, padded to T.

    Attributes:
        logps: (B, T) log-probabilities of the tokens under the model that is trained, with gradient, in nats.
        entropies: (B, T) of the model's distribution at each token, with gradient, in nats.
        own: (B, T) 1 on the tokens that the agent wrote, 0 on results, padding and failed episodes. The other tensors
            mean nothing where it is 0.
        advantages: (B, T) the advantage of each token's turn.
        behaviour_logps: (B, T) under the policy that sampled the tokens, without gradient.
        reference_logps: (B, T) under the reference model; None in a run without one.
        turns: (B, T) the index of each token's turn; -1 where the token is not the agent's.
        returns: (B,) outcome and turn rewards of each episode together; NaN for a failed one.
        max_length: tokens that an episode may have after its prompt.
        proximal_logps: (B, T) under the model when the update on this batch began, without gradient; None where that is
            `logps`, as with one iteration on each batch.
    """

    logps: torch.Tensor
    entropies: torch.Tensor
    own: torch.Tensor
    advantages: torch.Tensor
    behaviour_logps: torch.Tensor
    reference_logps: torch.Tensor | None
    turns: torch.Tensor
    returns: torch.Tensor
    max_length: int
    proximal_logps: torch.Tensor | None = None

    def per_row(self, values: torch.Tensor) -> torch.Tensor:
        """(B,) the sum of (B, T) values over each episode's own tokens, divided by `max_length`.

        A constant divisor weighs every token alike; a mean over the episode's tokens would weigh those of short
        episodes more. Source: Dr. GRPO, Liu et al. 2025, arXiv:2503.20783.
        """
        return (values * self.own).sum(1) / self.max_length

    def kl_to_reference(self) -> torch.Tensor:
        """(B,) the estimate r - 1 - log r of KL(policy, reference), r = reference / policy; `train.kl` weighs it.

        Source: the estimator k3, Schulman 2020, http://joschu.net/blog/kl-approx.html.
        """
        assert self.reference_logps is not None
        log_ratio = (self.reference_logps - self.logps) * self.own
        return self.per_row(log_ratio.exp() - 1 - log_ratio)

    def row_log_ratios(self) -> torch.Tensor:
        """(B,) log of the probability of all own tokens now, over that when they were sampled."""
        return ((self.logps - self.behaviour_logps) * self.own).sum(1)


RowLosses = Callable[[TokenBatch], torch.Tensor]
"""Returns (B,) one loss for each episode. The step minimises the mean over all episodes of the batch, failed ones too.

A batch may be computed in parts, so the loss of an episode must not depend on others.
"""


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A loss that is added to the objective's.

    Attributes:
        name: registered; the term is logged, without its weight, as `loss/<name>`.
        schedule: a factor on the weight over the training; None leaves it constant.
    """

    name: str
    row_losses: RowLosses
    weight: float = 1.0
    schedule: Schedule | None = field(default=None)

    def weight_at(self, progress: float) -> float:
        """The weight when `progress` of the training, 0 to 1, is done."""
        return self.weight if self.schedule is None else self.weight * self.schedule.factor(progress)


def losses_by_row(
    tokens: TokenBatch, objective: RowLosses | None, terms: Sequence[WeightedTerm], *, kl: float, progress: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """(B,) what our part of the loss is for each episode, and its summands and the entropy as metrics.

    Args:
        objective: None if TRL computes it; then only the terms are added up.
        kl: weight of the distance from the reference model, beside an objective of ours.
        progress: how much of the training is done, 0 to 1.
    """
    weighted: list[tuple[str, float, torch.Tensor]] = []
    metrics: dict[str, float] = {}
    if objective is not None:
        weighted.append(("objective", 1.0, objective(tokens)))
        if kl:
            weighted.append(("reference_kl", kl, tokens.kl_to_reference()))
        metrics["entropy"] = float((tokens.entropies.detach() * tokens.own).sum() / tokens.own.sum().clamp(min=1))
    weighted += [(term.name, term.weight_at(progress), term.row_losses(tokens)) for term in terms]
    for name, _, losses in weighted:
        if losses.shape != tokens.returns.shape:
            raise ShapeError(
                f"{name} returned losses of the shape {tuple(losses.shape)} for {len(tokens.own)} episodes."
            )
        metrics[f"loss/{name}"] = float(losses.detach().mean())
    return torch.stack([weight * losses for _, weight, losses in weighted]).sum(0), metrics


class TrlLoss:
    """An objective that TRL computes itself. Decorates a function without a body, whose name is that of the loss."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.loss_type, self.__doc__ = function.__name__, function.__doc__


def make_objective(text: str) -> RowLosses | TrlLoss:
    """Make an objective from its name and options: `dr_grpo`, `topr(max_ratio=1.0)`.

    Raises: UnknownNameError; CreditError for options that it does not take.
    """
    part = parse_part(text)
    registered: RowLosses | TrlLoss = registry.load("objectives", part.name)
    if not isinstance(registered, TrlLoss):
        return load_part("objectives", part.name, part.options)
    if part.options:
        raise CreditError(f"{text!r}: TRL computes this loss, and takes its options in [train.trl].")
    return registered


def make_term(name: str, weight: float, schedule: Schedule | None, options: Mapping[str, Any]) -> WeightedTerm:
    """Make a loss term. Raises: UnknownNameError; CreditError for options that it does not take."""
    return WeightedTerm(name, load_part("loss_terms", name, options), weight, schedule)
