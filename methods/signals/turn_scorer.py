"""A network that predicts numbers at chosen tokens: a copy of the policy's body with a linear head."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


@torch.no_grad()
def move_towards(copy: torch.nn.Module, network: torch.nn.Module, share: float) -> None:
    """Move a copy's weights towards its network's weights by a fraction `share` of the distance, 0 to 1."""
    for slow, fast in zip(copy.parameters(), network.parameters(), strict=True):
        slow.lerp_(fast, share)


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TokenPositions:
    """A trajectory's tokens, and the positions at which numbers are predicted."""

    ids: Sequence[int]
    positions: Sequence[int]


class TurnScorer(torch.nn.Module):
    """Predict numbers at chosen tokens.

    Args:
        model: a transformers causal language model; its body is copied and not changed.
        heads: how many numbers to predict at each position. Predictions start at 0.
        learning_rate, epochs, batch_size: for `fit`.
        seed: the seed of the batch order.
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

    def forward(self, inputs: Sequence[TokenPositions]) -> list[torch.Tensor]:
        """Return one [positions, heads] float32 tensor per input."""
        device, longest = self.head.weight.device, max(len(row_input.ids) for row_input in inputs)
        ids, mask = np.zeros((2, len(inputs), longest), np.int64)
        for row, row_input in enumerate(inputs):
            ids[row, : len(row_input.ids)] = row_input.ids
            mask[row, : len(row_input.ids)] = 1
        tokens, attended = torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
        hidden = self.body(input_ids=tokens, attention_mask=attended).last_hidden_state
        counts = [len(row_input.positions) for row_input in inputs]
        rows = torch.repeat_interleave(torch.arange(len(inputs)), torch.tensor(counts))
        columns = torch.tensor([position for row_input in inputs for position in row_input.positions])
        numbers = self.head(hidden[rows.to(device), columns.to(device)].float())
        return list(numbers.split(counts))

    @torch.no_grad()
    def read(self, inputs: Sequence[TokenPositions]) -> list[Array]:
        """Return one [positions, heads] float64 array per input, without learning."""
        self.eval()
        numbers: list[Array] = []
        for start in range(0, len(inputs), self.batch_size):
            batch = self(inputs[start : start + self.batch_size])
            numbers += [tensor.double().cpu().numpy() for tensor in batch]
        return numbers

    def fit(self, inputs: Sequence[TokenPositions], loss_of: Any) -> float:
        """Train on the inputs for `epochs` passes.

        Args:
            loss_of: maps (index of the input, its [positions, heads] tensor) to a scalar tensor.
        Returns: the mean loss of the first pass.
        """
        self.train()
        first_pass_losses: list[float] = []
        for epoch in range(self.epochs):
            order = self._order.permutation(len(inputs))
            for start in range(0, len(order), self.batch_size):
                rows = [int(row) for row in order[start : start + self.batch_size]]
                numbers = self([inputs[row] for row in rows])
                loss = torch.stack(
                    [loss_of(row, row_numbers) for row, row_numbers in zip(rows, numbers, strict=True)]
                ).mean()
                self._descend(loss)
                if epoch == 0:
                    first_pass_losses.append(float(loss.detach()))
        self.eval()
        return float(np.mean(first_pass_losses)) if first_pass_losses else float("nan")

    def step(self, inputs: Sequence[TokenPositions], loss_of: Callable[[torch.Tensor], torch.Tensor]) -> float:
        """Take one optimiser step on one batch.

        Args:
            inputs: all with the same number of positions.
            loss_of: maps the [B, positions, heads] tensor to a scalar tensor.
        Returns: the loss before the step.
        """
        self.train()
        loss = loss_of(torch.stack(self(inputs)))
        self._descend(loss)
        self.eval()
        return float(loss.detach())

    def _descend(self, loss: torch.Tensor) -> None:
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        self._optimiser.step()

    def training_state(self) -> dict[str, Any]:
        """Return weights, optimiser state and batch order, for torch.save."""
        order = json.dumps(self._order.bit_generator.state)
        return {"weights": self.state_dict(), "optimiser": self._optimiser.state_dict(), "order": order}

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `training_state` returned."""
        self.load_state_dict(state["weights"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._order.bit_generator.state = json.loads(state["order"])

    def save(self, file: Path) -> None:
        """Write the `training_state` into a file."""
        torch.save(self.training_state(), file)

    def restore(self, file: Path) -> None:
        """Restore the state from a file; if it is missing, as in older checkpoints, change nothing."""
        if file.is_file():
            self.load_training_state(torch.load(file, weights_only=True, map_location=self.head.weight.device))


def explained_variance(predicted: Array, actual: Array) -> float:
    """Return the explained variance: 1 is perfect, 0 no better than the mean; NaN if `actual` is constant."""
    variance = float(np.var(actual))
    return 1 - float(np.var(actual - predicted)) / variance if variance > 1e-12 else float("nan")
