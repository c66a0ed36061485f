"""A penalty on turns in which the policy is too certain or too uncertain.

The training part `past_entropies` keeps mean entropies of turns in earlier steps; a band can be relative to these.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from typing_extensions import override

from agentgym.options import Weight
from agentgym.training import BatchPass, TrainingPart
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss

PAST = "past_entropies"
FILE = "entropies.json"
"""The file in a checkpoint with the entropies of earlier steps."""


@define_loss(LossRequirements(parts=(PAST,)))
def entropy_band(
    tokens: TokenBatch, *, low: Weight = 0.0, high: Weight = float("inf"), relative: bool = False
) -> torch.Tensor:
    """(low - H)^2 below the band and (H - high)^2 above it, averaged over an episode's turns.

    H is the mean entropy of a turn's tokens, in nats. Inside the band there is no gradient.

    Args:
        relative: low and high are factors of the mean entropy that turns of the same index had in earlier steps. There
            is no penalty in the first step, or at turns that no earlier step reached.

    Source: the entropy band of EPO, Xu et al. 2025, arXiv:2509.22576. There the band is relative, with the factors 0.8
    and 1.2, and the weight is 0.1. EPO compares with the mean of a window of steps, and its released penalty has no
    gradient; ours has.
    """
    means, taken = tokens.turn_means(tokens.entropies)
    if relative:
        usual = _usual(tokens, means)
        taken = taken * ~usual.isnan()
        usual = usual.nan_to_num(0.0)
        floor, ceiling = low * usual, (high * usual).nan_to_num(float("inf"))
    else:
        floor, ceiling = torch.full_like(means, low), torch.full_like(means, high)
    outside = (floor - means).relu() ** 2 + (means - ceiling).relu() ** 2
    return (outside * taken).sum(1) / taken.sum(1).clamp(min=1)


def _usual(tokens: TokenBatch, means: torch.Tensor) -> torch.Tensor:
    """Return (B, K) the mean entropy in earlier steps of turns of the same index; NaN if unknown."""
    rows, count = means.shape
    usual = means.new_full((rows, count + 1), float("nan"))  # the last column is for tokens that belong to no turn
    if PAST in tokens.inputs:
        turns = torch.where(tokens.turns < 0, count, tokens.turns)
        usual = usual.scatter(1, turns, tokens.inputs[PAST].to(usual))
    return usual[:, :count]


class PastEntropies(TrainingPart):
    """Keeps running means of turn entropies by turn index, in which each step counts once."""

    provides: ClassVar[tuple[str, ...]] = (PAST,)
    is_implied: ClassVar[bool] = True

    def __init__(self) -> None:
        self._means: list[float] = []
        self._steps: list[int] = []  # number of steps in which each index occurred
        self._sums, self._counts = torch.zeros(0), torch.zeros(0)  # sums and counts of the current step

    def usual(self) -> torch.Tensor | None:
        """Return (K,) mean entropies by turn index, in nats; None before the first step has ended."""
        if not self._means:
            return None
        known = [mean if steps else float("nan") for mean, steps in zip(self._means, self._steps, strict=True)]
        return torch.tensor(known)

    @override
    def change_pass(self, update: BatchPass) -> BatchPass:
        if (usual := self.usual()) is None:
            return update
        turns, of_turn = update.turns, torch.cat([usual, torch.tensor([float("nan")])])
        index = torch.where((turns < 0) | (turns >= len(usual)), len(usual), turns)
        return update.changed(inputs={PAST: of_turn.to(update.advantages)[index]})

    @override
    def observe(self, tokens: TokenBatch) -> None:
        means, taken = tokens.turn_means(tokens.entropies.detach().float())
        longer = max(means.shape[1] - len(self._sums), 0)
        sums = torch.nn.functional.pad(self._sums, (0, longer))
        counts = torch.nn.functional.pad(self._counts, (0, longer))
        sums[: means.shape[1]] += (means * taken).sum(0).cpu()
        counts[: means.shape[1]] += taken.sum(0).cpu()
        self._sums, self._counts = sums, counts

    @override
    def end_batch(self, gather: Callable[[Any], list[Any]]) -> None:
        of_all = gather((self._sums.tolist(), self._counts.tolist()))
        for index in range(max(len(sums) for sums, _ in of_all)):
            count = sum(counts[index] for _, counts in of_all if index < len(counts))
            total = sum(sums[index] for sums, _ in of_all if index < len(sums))
            if index == len(self._means):
                self._means.append(0.0)
                self._steps.append(0)
            if count:
                self._steps[index] += 1
                self._means[index] += (total / count - self._means[index]) / self._steps[index]
        self._sums, self._counts = torch.zeros(0), torch.zeros(0)

    @override
    def save(self, folder: Path) -> None:
        (folder / FILE).write_text(json.dumps({"means": self._means, "steps": self._steps}), encoding="utf-8")

    @override
    def restore(self, folder: Path) -> None:
        if (folder / FILE).is_file():
            state = json.loads((folder / FILE).read_text(encoding="utf-8"))
            self._means, self._steps = state["means"], state["steps"]
