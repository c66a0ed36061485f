"""Objectives that compare a group's episodes, in a batch computed in parts and by several processes.

A first pass without gradient computes the log-probabilities of the whole batch, and from them each group's loss and its
slopes, the derivatives with respect to each log-probability. Then a part of the batch can be computed from its own rows
alone, because the sum of slope x log-probability over all tokens has the same gradient as the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.nn.functional import pad

from agentgym.training.objectives.contract import RowLosses, TokenBatch
from agentgym.training.processes import ALONE, Processes

_BY_TOKEN = (
    "advantages",
    "behaviour_logps",
    "entropies",
    "logps",
    "own",
    "reference_logps",
    "turns",
)


def losses_of_groups(
    objective: RowLosses, tokens: TokenBatch, processes: Processes = ALONE
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return losses, (B,), and their slopes with respect to each token's log-probability, (B, T).

    Args:
        tokens: this process's batch. processes: the processes that train together; they may share a group.
    """
    size, width = tokens.own.shape
    every = _joined(processes.gather(tokens.changed(lambda _, value: value.detach().cpu())))
    losses, slopes = every.returns.new_zeros(len(every.own)), torch.zeros_like(every.logps)
    for group in every.groups.unique():
        rows = (every.groups == group).nonzero()[:, 0]
        with torch.enable_grad():
            batch = every.select(rows)
            batch = replace(batch, logps=batch.logps.requires_grad_())
            of_group = objective(batch)
            (slope,) = torch.autograd.grad(of_group.sum(), batch.logps)
        losses[rows], slopes[rows] = of_group.detach().to(losses), slope
    own_rows = slice(processes.rank * size, (processes.rank + 1) * size)  # all processes have the same number of rows
    return losses[own_rows].to(tokens.logps), slopes[own_rows, :width].to(tokens.logps)


def linearised(losses: torch.Tensor, slopes: torch.Tensor) -> RowLosses:
    """Return an objective with these losses, whose gradient follows the slopes."""
    return lambda tokens: losses + ((tokens.logps - tokens.logps.detach()) * slopes).sum(1)


def _joined(batches: Sequence[TokenBatch]) -> TokenBatch:
    """Return the batches of all processes as one, padded to the widest."""
    width = max(batch.own.shape[1] for batch in batches)

    def column(name: str, batch: TokenBatch) -> torch.Tensor:
        mapping, _, key = name.partition(".")
        value: torch.Tensor = getattr(batch, mapping)[key] if key else getattr(batch, name)
        if name not in _BY_TOKEN and (mapping != "inputs" or value.dim() == 1):
            return value
        return pad(value, (0, width - value.shape[1]), value=-1 if name == "turns" else 0)

    return batches[0].changed(lambda name, _: torch.cat([column(name, batch) for batch in batches]))
