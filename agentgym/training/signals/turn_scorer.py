"""A network that says numbers about turns: a copy of the policy's body with a linear head, read at chosen tokens."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenPositions:
    """Tokens of one trajectory, and the positions among them at which numbers are wanted."""

    ids: Sequence[int]
    positions: Sequence[int]


class TurnScorer(torch.nn.Module):
    """Numbers at tokens.

    Args:
        model: a causal language model of transformers; its body is copied, so that learning here leaves it alone.
        heads: how many numbers at each position. They begin at 0.
        learning_rate, epochs, batch_size: of `fit`.
        seed: of the order of its batches.
    """

    def __init__(
        self,
        model: Any,
        heads: int = 1,
        *,
        learning_rate: float = 1e-3,
        epochs: int = 2,
        batch_size: int = 16,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.body = copy.deepcopy(model.base_model)
        self.head = torch.nn.Linear(model.config.hidden_size, heads)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.to(next(model.parameters()).device)
        for parameter in self.parameters():
            parameter.requires_grad_(True)
        self.epochs, self.batch_size = epochs, batch_size
        self._optimiser = torch.optim.AdamW(self.parameters(), lr=learning_rate, weight_decay=0.0)
        self._order = np.random.default_rng(seed)

    def forward(self, readings: Sequence[TokenPositions]) -> list[torch.Tensor]:
        """One [positions, heads] float32 tensor per reading."""
        device, longest = self.head.weight.device, max(len(reading.ids) for reading in readings)
        ids = torch.zeros((len(readings), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, reading in enumerate(readings):
            ids[row, : len(reading.ids)] = torch.tensor(reading.ids)
            mask[row, : len(reading.ids)] = 1
        hidden = self.body(input_ids=ids.to(device), attention_mask=mask.to(device)).last_hidden_state
        return [self.head(hidden[row, list(reading.positions)].float()) for row, reading in enumerate(readings)]

    @torch.no_grad()
    def read(self, readings: Sequence[TokenPositions]) -> list[Array]:
        """One [positions, heads] float64 array per reading, nothing learnt."""
        self.eval()
        found: list[Array] = []
        for start in range(0, len(readings), self.batch_size):
            batch = self(readings[start : start + self.batch_size])
            found += [one.double().cpu().numpy() for one in batch]
        return found

    def fit(self, readings: Sequence[TokenPositions], loss_of: Any) -> float:
        """Learn from readings for `epochs` passes.

        Args:
            loss_of: from (index of the reading, [positions, heads] tensor) to a scalar tensor.
        Returns: the mean loss of the first pass.
        """
        self.train()
        first: list[float] = []
        for epoch in range(self.epochs):
            order = self._order.permutation(len(readings))
            for start in range(0, len(order), self.batch_size):
                rows = [int(row) for row in order[start : start + self.batch_size]]
                numbers = self([readings[row] for row in rows])
                loss = torch.stack([loss_of(row, found) for row, found in zip(rows, numbers, strict=True)]).mean()
                self._optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)
                self._optimiser.step()
                if epoch == 0:
                    first.append(float(loss.detach()))
        self.eval()
        return float(np.mean(first)) if first else float("nan")


def explained(predicted: Array, actual: Array) -> float:
    """Share of the variance explained: 1 is perfect, 0 no better than the mean; NaN where nothing varies."""
    spread = float(np.var(actual))
    return 1 - float(np.var(actual - predicted)) / spread if spread > 1e-12 else float("nan")
