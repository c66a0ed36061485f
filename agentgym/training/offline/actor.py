"""Train a policy only on stored turns with known advantages."""

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
"""A function of [B] log-probabilities of turns now (with gradient) and when sampled, and advantages, to [B] losses."""


def clipped_loss(clip: float) -> TurnLosses:
    """Return -min(r A, clip(r, 1 - clip, 1 + clip) A), with r the whole turn's probability ratio, now to when sampled.

    While the policy equals the sampling one, the gradient is the policy gradient with these advantages. Because nothing
    new is sampled, no turn's probability ratio moves much beyond the clip, however long the training.
    Source: PPO, Schulman et al. 2017, arXiv:1707.06347, eq. 7, with the turn as the step.
    """

    def losses(logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        ratios = (logprobs - behaviour).exp()
        return -torch.minimum(ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages)

    return losses


def quadratic_loss(beta: float) -> TurnLosses:
    """Return (log r - A / beta)^2, with r as in `clipped_loss`: a turn becomes likelier in proportion to its advantage.

    Turns of any policy can be used, because the target does not depend on who sampled them. If the targets of one
    prefix cannot all be met, because probabilities sum to 1, the sampled frequencies decide the compromise.
    Source: Liu et al. 2024, arXiv:2412.18279, in the form given by summaries. The paper's own weights were not read.
    """

    def losses(logprobs: torch.Tensor, behaviour: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        return (logprobs - behaviour - advantages / beta) ** 2

    return losses


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """The options for training a policy on stored turns.

    Attributes:
        epochs: number of passes over the turns.
        batch_size: number of turns per optimiser step.
        learning_rate: the learning rate.
        max_tokens: maximum number of tokens, with padding, of the parts in which a batch is computed.
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
