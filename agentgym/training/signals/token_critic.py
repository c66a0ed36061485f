"""A critic that says before every token of the agent what is still to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from agentgym.training.signals.provider import Rows
from agentgym.training.signals.return_spec import ReturnSpec
from agentgym.training.signals.turn_scorer import TokenPositions, TurnScorer, explained
from agentgym.trajectory import Trajectory


class TokenCritic:
    """`token_values`: one number before each token of a turn, fitted to the return from that turn on.

    Args:
        model: its body is copied. `worth`: the return that is learnt. `settings`: of TurnScorer.
    Source: RAGEN, Wang et al. 2025, arXiv:2504.20073 (a value per token under bi-level advantages).
    """

    provides: tuple[str, ...] = ("token_values",)

    def __init__(self, model: Any, return_spec: ReturnSpec, **settings: Any) -> None:
        self.return_spec, self.scorer = return_spec, TurnScorer(model, heads=1, **settings)

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        found: Rows = [[[0.0]] * len(t.turns) for t in played]
        rows = [row for row, t in enumerate(played) if t.valid]
        for row, numbers in zip(rows, self.scorer.read([_token_positions(played[row]) for row in rows]), strict=True):
            ends = np.cumsum([len(turn.token_ids) for turn in played[row].turns])
            found[row] = [one.tolist() for one in np.split(numbers[:, 0], ends[:-1])]
        return {"token_values": found}

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        """Fit to the batch. Returns: loss, and the share of the returns' variance that was explained before it."""
        valid = [t for t in played if t.valid]
        if not valid:
            return {}
        readings = [_token_positions(t) for t in valid]
        wanted = [np.repeat(self.return_spec.to_go(t), [len(turn.token_ids) for turn in t.turns]) for t in valid]
        said = np.concatenate([numbers[:, 0] for numbers in self.scorer.read(readings)])
        figures = {"critic/explained_variance": explained(said, np.concatenate(wanted))}
        device = self.scorer.head.weight.device
        targets = [torch.tensor(target, dtype=torch.float32, device=device) for target in wanted]

        def loss_of(row: int, numbers: torch.Tensor) -> torch.Tensor:
            return ((numbers[:, 0] - targets[row]) ** 2).mean()

        figures["critic/loss"] = self.scorer.fit(readings, loss_of)
        return {name: value for name, value in figures.items() if np.isfinite(value)}


def _token_positions(trajectory: Trajectory) -> TokenPositions:
    """Positions: the token before each of the agent's own."""
    ids = list(trajectory.prompt_ids)
    before: list[int] = []
    for turn in trajectory.turns:
        before += range(len(ids) - 1, len(ids) - 1 + len(turn.token_ids))
        ids += [*turn.token_ids, *turn.observation_ids]
    return TokenPositions(ids, before)
