"""A batch is computed in parts of a bounded number of tokens, rows of like length together.

So the memory of a step follows the budget instead of the batch, and little of what is computed is padding. The gradient
is that of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np

DEFAULT_TOKENS = 16_384
"""Tokens of a part, with padding."""

T = TypeVar("T")


def parts_of(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Share out the rows of a batch; a row that is longer than the budget is a part by itself.

    Args:
        lengths: [rows, segments] tokens of each row's segments, each of which is padded by itself.
        max_tokens: of a part, with padding.
    Returns: the indices of the rows of each part; the longest rows first.
    """
    parts: list[list[int]] = []
    widths = lengths[:0].sum(axis=0)
    for row in np.argsort(-lengths.sum(axis=1), kind="stable"):
        wider = np.maximum(widths, lengths[row])
        if not parts or wider.sum() * (len(parts[-1]) + 1) > max_tokens:
            parts.append([])
            wider = lengths[row]
        parts[-1].append(int(row))
        widths = wider
    return [np.array(part) for part in parts]


def split_to(parts: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """Halve the parts with the most rows until there are `count`, which is at most the number of rows."""
    parts = list(parts)
    while len(parts) < count:
        largest = max(range(len(parts)), key=lambda i: len(parts[i]))
        parts[largest : largest + 1] = np.array_split(parts[largest], 2)
    return parts


def loss_in_parts(trainer: Any, model: Any, parts: Sequence[T], loss_of: Callable[[T], Any]) -> Any:
    """The sum of the parts' losses. In training the gradients of all but the last part are already added up.

    Args:
        trainer: of transformers, whose loss is scaled for gradient accumulation. It trains while its model does.
        loss_of: the loss of a part, weighted by its share of the batch.
    """
    *earlier, last = parts
    known, trains = 0.0, trainer.model.training
    for part in earlier:
        # Several processes average their gradients once, with those of the last part.
        with trainer.accelerator.no_sync(model) if trains else nullcontext():
            loss = loss_of(part)
            if trains:
                trainer.accelerator.backward(loss)
        known += loss.detach()
    return loss_of(last) + known
