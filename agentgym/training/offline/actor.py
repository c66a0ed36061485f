"""A policy trained on stored turns alone, each with an advantage that is known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentgym.errors import PolicyError
from agentgym.training.stored_turns.transitions import TurnTransition
from agentgym.training.stored_turns.turn_logprobs import batches, token_logprobs

TurnLosses = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""From [B] log-probabilities of turns now (with gradient), when they were sampled, and advantages, to [B] losses."""


def clipped_loss(clip: float) -> TurnLosses:
    """-min(r A, clip(r, 1 - clip, 1 + clip) A), with r the probability of the whole turn now over that when sampled.

    While the policy is the one that sampled, its gradient is the policy gradient with these advantages. As nothing new
    is sampled, no turn's probability is pushed by much more than the clip, however long it is trained.
    Source: PPO, Schulman et al. 2017, arXiv:1707.06347, eq. 7, with the turn as the step.
    """

    def losses(logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        ratios = (logprobs - behaviour).exp()
        return -torch.minimum(ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages)

    return losses


def quadratic_loss(beta: float) -> TurnLosses:
    """(log r - A / beta)^2, with r as in `clipped_loss`: a turn becomes likelier by as much as it is better.

    Turns of any policy may be learnt from, because the target does not depend on who sampled them. Where the numbers of
    one prefix cannot all be met, since probabilities sum to 1, the sampled frequencies decide how they are traded.
    Source: the form that summaries give of Liu et al. 2024, arXiv:2412.18279. The paper's own weights were not read.
    """

    def losses(logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        return (logprobs - behaviour - advantages / beta) ** 2

    return losses


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """How a policy is trained on stored turns.

    Attributes:
        epochs: how many passes over the turns are taken.
        batch_size: how many turns an optimiser step learns from.
        learning_rate: the learning rate.
        max_tokens: a batch is computed in parts of at most this many tokens, padding included.
        temperature: the temperature at which the turns were sampled.
        seed: the seed of the order of the turns.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    max_tokens: int
    temperature: float = 1.0
    seed: int = 0


def train_on_turns(
    model: Any,
    transitions: Sequence[TurnTransition],
    advantages: Sequence[float],
    losses_of: TurnLosses,
    passes: Passes,
    on_step: Callable[[int, float], None],
) -> None:
    """Train a model in place.

    Args:
        advantages: one for each transition.
        on_step: called with the number of each optimiser step, from 1 on, and its loss.
    Raises: PolicyError if the loss is not finite.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=passes.learning_rate, weight_decay=0.0)
    behaviour, goals = (
        torch.tensor(numbers, dtype=torch.float32, device=model.device)
        for numbers in ([t.behaviour_logprob for t in transitions], list(advantages))
    )
    was_training = model.training
    model.eval()  # the turns were sampled without dropout
    for step, drawn in enumerate(_orders(len(transitions), passes), start=1):
        optimiser.zero_grad()
        total = 0.0
        for part in batches([transitions[number] for number in drawn], passes.max_tokens):
            numbers = [int(drawn[index]) for index in part]
            rows = token_logprobs(model, [transitions[number] for number in numbers], temperature=passes.temperature)
            logprobs = torch.stack([row.sum() for row in rows])
            loss = losses_of(logprobs, behaviour[numbers], goals[numbers]).sum() / len(drawn)
            loss.backward()
            total += float(loss.detach())
        if not np.isfinite(total):
            raise PolicyError(f"The loss of step {step} on stored turns is {total}: lower learning_rate.")
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        on_step(step, total)
    model.train(was_training)


def _orders(count: int, passes: Passes) -> Iterator[np.ndarray]:
    order = np.random.default_rng(passes.seed)
    for _ in range(passes.epochs):
        permutation = order.permutation(count)
        for start in range(0, count, passes.batch_size):
            yield permutation[start : start + passes.batch_size]
