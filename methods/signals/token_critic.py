"""A critic that predicts the return before each of the agent's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import override

from agentgym import Trajectory
from agentgym.training.signals import SignalProvider, SignalSources

from ..stored_turns.transitions import ReturnSpec
from .turn_scorer import TokenPositions, TurnScorer, explained_variance

FILE = "token_critic.pt"
"""File with the state in a checkpoint's folder."""


class TokenCritic(SignalProvider):
    """Compute `token_values`: a number before each own token of a turn, fitted to the return from that turn on.

    Args:
        model: the model whose body is copied.
        return_spec: the return to learn.
        settings: the settings of TurnScorer.
    Source: RAGEN, Wang et al. 2025, arXiv:2504.20073 (a value per token under bi-level advantages).
    """

    provides: ClassVar[tuple[str, ...]] = ("token_values",)
    reads_text_only: ClassVar[bool] = True
    reads_one_context: ClassVar[bool] = True
    needs_whole_model: ClassVar[bool] = True

    def __init__(self, model: Any, return_spec: ReturnSpec, **settings: Any) -> None:
        self.return_spec, self.scorer = return_spec, TurnScorer(model, heads=1, **settings)

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> TokenCritic:
        return cls(sources.model, ReturnSpec(**sources.return_weights), **sources.network_options)

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        values: list[Any] = [[[0.0]] * len(t.turns) for t in trajectories]
        rows = [row for row, t in enumerate(trajectories) if t.valid]
        for row, numbers in zip(
            rows, self.scorer.read([_token_positions(trajectories[row]) for row in rows]), strict=True
        ):
            ends = np.cumsum([len(turn.token_ids) for turn in trajectories[row].turns])
            values[row] = [turn_values.tolist() for turn_values in np.split(numbers[:, 0], ends[:-1])]
        return {"token_values": values}

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Fit to the batch. Returns: the loss, and the explained variance of the returns before the fit."""
        valid = [t for t in trajectories if t.valid]
        if not valid:
            return {}
        inputs = [_token_positions(t) for t in valid]
        returns = [
            np.repeat(self.return_spec.returns_to_go(t), [len(turn.token_ids) for turn in t.turns]) for t in valid
        ]
        predictions = np.concatenate([numbers[:, 0] for numbers in self.scorer.read(inputs)])
        metrics = {"critic/explained_variance": explained_variance(predictions, np.concatenate(returns))}
        mean_tokens = float(np.mean([len(target) for target in returns]))  # one divisor: tokens have equal weights
        device = self.scorer.head.weight.device
        targets = [torch.tensor(target, dtype=torch.float32, device=device) for target in returns]

        def loss_of(row: int, numbers: torch.Tensor) -> torch.Tensor:
            return ((numbers[:, 0] - targets[row]) ** 2).sum() / mean_tokens

        metrics["critic/loss"] = self.scorer.fit(inputs, loss_of)
        return {name: value for name, value in metrics.items() if np.isfinite(value)}

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder."""
        self.scorer.save(folder / FILE)

    def restore(self, folder: Path) -> None:
        """Restore the state from a checkpoint's folder."""
        self.scorer.restore(folder / FILE)


def _token_positions(trajectory: Trajectory) -> TokenPositions:
    """Return the positions of the tokens before each of the agent's own tokens."""
    trajectory.require_one_row("the critic")
    ids = list(trajectory.prompt_ids)
    positions: list[int] = []
    for turn in trajectory.turns:
        positions += range(len(ids) - 1, len(ids) - 1 + len(turn.token_ids))
        ids += [*turn.token_ids, *turn.observation_ids]
    return TokenPositions(ids, positions)
