"""Learns what each turn contributes to the outcome; contributions are fitted so that they sum to the outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import override

from agentgym import Trajectory
from agentgym.training.signals import SignalProvider, SignalSources

from .turn_scorer import TokenPositions, TurnScorer, explained_variance

FILE = "contributions.pt"
"""File with the state in a checkpoint's folder."""


class ContributionModel(SignalProvider):
    """Compute `contributions`: one number per turn, read at its last token; the loss is (their sum - outcome)^2.

    Args:
        model: the model whose body is copied. `settings`: the settings of TurnScorer.
    Source: SPA-RL, Wang et al. 2025, arXiv:2505.20732.
    """

    provides: ClassVar[tuple[str, ...]] = ("contributions",)
    reads_text_only: ClassVar[bool] = True
    reads_one_context: ClassVar[bool] = True
    needs_whole_model: ClassVar[bool] = True

    def __init__(self, model: Any, **settings: Any) -> None:
        self.scorer = TurnScorer(model, heads=1, **settings)

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> ContributionModel:
        return cls(sources.model, **sources.network_options)

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        contributions: list[Any] = [[0.0] * len(t.turns) for t in trajectories]
        rows = [row for row, t in enumerate(trajectories) if t.valid]
        for row, numbers in zip(
            rows, self.scorer.read([_token_positions(trajectories[row]) for row in rows]), strict=True
        ):
            contributions[row] = numbers[:, 0].tolist()
        return {"contributions": contributions}

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Fit to the batch. Returns: the loss, and the explained variance of the outcomes before the fit."""
        valid = [t for t in trajectories if t.valid]
        if not valid:
            return {}
        inputs = [_token_positions(t) for t in valid]
        outcomes = np.array([t.outcome_reward for t in valid])
        sums = np.array([numbers.sum() for numbers in self.scorer.read(inputs)])
        metrics = {"progress/explained_variance": explained_variance(sums, outcomes)}

        def loss_of(row: int, numbers: torch.Tensor) -> torch.Tensor:
            return (numbers.sum() - float(outcomes[row])) ** 2

        metrics["progress/loss"] = self.scorer.fit(inputs, loss_of)
        return {name: value for name, value in metrics.items() if np.isfinite(value)}

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder."""
        self.scorer.save(folder / FILE)

    def restore(self, folder: Path) -> None:
        """Restore the state from a checkpoint's folder."""
        self.scorer.restore(folder / FILE)


def _token_positions(trajectory: Trajectory) -> TokenPositions:
    trajectory.require_one_row("the progress estimator")
    ids, ends = list(trajectory.prompt_ids), []
    for turn in trajectory.turns:
        ids += turn.token_ids
        ends.append(len(ids) - 1)
        ids += turn.observation_ids
    return TokenPositions(ids, ends)
