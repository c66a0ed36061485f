"""check_objective: one finite loss per episode, from the agent's tokens only, independent of the rest of the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from agentgym import UnknownNameError, load
from agentgym.training.objectives import LossRequirements, TokenBatch

from .findings import Findings

_EPISODES, _TOKENS, _WORDS = 5, 12, 7


def check_objective(chosen: str | Callable[..., torch.Tensor], *, seed: int = 0, **options: Any) -> None:
    """Check an objective or a loss term on random episodes, one of which failed.

    Losses and gradients have the right shape and are finite; the gradient is 0 on tokens that are not the agent's. A
    batch may be computed in parts, so an episode's loss must not depend on the batch's other episodes; this is not
    checked if the objective declares that it needs whole groups.

    Args:
        chosen: a registered name, or a function of a TokenBatch. An objective that TRL computes is not checked.
        seed: the seed of the episodes. options: the objective's options.
    Raises: ConformanceError with every finding; UnknownNameError.
    """
    function: Any = chosen
    if isinstance(chosen, str):
        try:
            function = load("objectives", chosen)
        except UnknownNameError:
            function = load("loss_terms", chosen)
    findings = Findings(f"objective {chosen if isinstance(chosen, str) else chosen.__name__!r}")
    if not (function.__doc__ or "").strip():
        findings.add("It has no docstring: say the formula, and its source.")
    if callable(function):  # TRL computes the other objectives
        with findings.no_exception("A batch of random episodes"):
            needs: LossRequirements = getattr(function, "needs", LossRequirements())
            for rows in needs.rows:
                _check_losses(
                    lambda batch: function(batch, **options), seed, findings, rows=rows, whole_groups=needs.whole_groups
                )
    findings.conclude()


def _check_losses(
    row_losses: Callable[[TokenBatch], torch.Tensor], seed: int, findings: Findings, *, rows: str, whole_groups: bool
) -> None:
    draws = torch.Generator().manual_seed(seed)
    logits = torch.randn(_EPISODES, _TOKENS, _WORDS, dtype=torch.float64, generator=draws).requires_grad_()
    batch = replace(_random_batch(logits, draws), rows=rows)
    losses = row_losses(batch)
    if losses.shape != (_EPISODES,):
        findings.add(f"It returned the shape {tuple(losses.shape)} for {_EPISODES} episodes: give one loss for each.")
        return
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    if not (torch.isfinite(losses).all() and torch.isfinite(gradient).all()):
        findings.add(
            f"Losses or gradients are not finite: {losses.tolist()}. Row 4 is a failed episode, without tokens."
        )
    if (gradient[batch.own == 0] != 0).any():
        findings.add("Tokens that the agent did not write have a gradient: multiply by `own`, or sum with `per_row`.")
    if whole_groups:
        return
    alone = torch.cat([row_losses(batch.select(slice(row, row + 1))) for row in range(_EPISODES)])
    if not torch.allclose(alone, losses, equal_nan=True):
        findings.add(
            f"Episodes have the losses {losses.tolist()} together and {alone.tolist()} one by one: a batch is computed "
            "in parts, so the loss of an episode must not depend on others."
        )


def _random_batch(logits: torch.Tensor, draws: torch.Generator) -> TokenBatch:
    """Return episodes of one to three turns with results between them; the last one failed and has no agent tokens."""
    logps = logits.log_softmax(-1)
    turns = torch.tensor([[k // 4 if k // 4 <= row % 3 and k % 4 else -1 for k in range(_TOKENS)] for row in range(5)])
    turns[-1] = -1
    own = (turns >= 0).long()
    returns = torch.tensor([1.0, 0.0, 0.5, -1.0, float("nan")], dtype=logits.dtype)
    successes = (returns == 1).to(logits.dtype).where(~returns.isnan(), returns)
    noise = torch.randn(2, *turns.shape, generator=draws, dtype=logits.dtype)
    return TokenBatch(
        logps=logps[..., 0],
        entropies=-(logps.exp() * logps).sum(-1),
        own=own,
        advantages=noise[0] * own,
        behaviour_logps=logps[..., 0].detach() + 0.1 * noise[1],
        reference_logps=logps[..., 0].detach() - 0.2,
        turns=turns,
        returns=returns,
        max_length=16,
        groups=torch.zeros(_EPISODES, dtype=torch.long),
        group_returns=returns.expand(_EPISODES, -1),
        group_successes=successes.expand(_EPISODES, -1),
        mean_length=5.0,
        expert_returns=torch.ones_like(returns),
        outcomes={"success": successes},
        inputs={
            "optimal_values": torch.full_like(returns, 0.5),
            "past_entropies": torch.where(turns == 0, 1.0, torch.where(turns == 1, 2.0, float("nan"))).to(logits),
            "teacher": logps[..., 0].detach() + 0.1 * noise[0],
        },
    )
