"""Trajectories of several rows in a forward pass: each row is a separate sequence that does not read the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

PER_TOKEN = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1", "label_mask")
"""Outputs of TRL's fused head with one entry per token."""


class SeparateRows:
    """Split a batch [B, L] of trajectories into N sequences of at most W tokens, one per row of a trajectory.

    Args:
        attention_mask: [B, L] 1 on tokens, which are contiguous.
        starts: the start of each context of each trajectory, counted from the trajectory's first token.
    """

    def __init__(self, attention_mask: torch.Tensor, starts: Sequence[tuple[int, ...]]) -> None:
        self._shape = attention_mask.shape
        columns = []
        for number, (own, own_starts) in enumerate(zip(attention_mask.bool().cpu(), starts, strict=True)):
            tokens = own.nonzero()[:, 0] + number * self._shape[1]
            columns += [rows for rows in tokens.tensor_split(list(own_starts[1:])) if len(rows)]
        pad = torch.nn.utils.rnn.pad_sequence
        self._index = pad(columns, batch_first=True).to(attention_mask.device)
        mask = pad([torch.ones(len(own), dtype=torch.bool) for own in columns], batch_first=True)
        self._mask = mask.to(attention_mask.device)

    def split(self, values: torch.Tensor, filler: int = 0) -> torch.Tensor:
        """Return [N, W] values of the separate rows from [B, L]."""
        return values.flatten()[self._index].masked_fill(~self._mask, filler)

    def join(self, values: torch.Tensor) -> torch.Tensor:
        """Return [B, L-1] from [N, W-1], both with one entry per next token; 0 where a row has no next token."""
        has_next = self._mask[:, 1:]
        joined = values.new_zeros(self._shape.numel())
        joined = joined.index_put((self._index[:, :-1][has_next],), values[has_next])
        return joined.view(self._shape)[:, :-1]

    def forward(self, model: Any, *, labels: torch.Tensor, **inputs: Any) -> Any:
        """Return the fused-head outputs of a model in [B, L] layout, computed on the separate rows."""
        for name, value in inputs.items():
            if isinstance(value, torch.Tensor) and value.shape == self._shape:
                inputs[name] = self.split(value)
        outputs = model(**inputs, labels=self.split(labels, -100))
        for name in PER_TOKEN:
            if (values := getattr(outputs, name)) is not None:
                setattr(outputs, name, self.join(values))
        return outputs


def separated(attention_mask: torch.Tensor, starts: Sequence[tuple[int, ...]]) -> SeparateRows | None:
    """Return the separate rows of a batch; None if every trajectory has one row, which is the usual case."""
    return SeparateRows(attention_mask, starts) if any(len(own) > 1 for own in starts) else None
