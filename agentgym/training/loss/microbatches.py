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


def parts_alike(lengths: Sequence[np.ndarray], own: int, max_tokens: int) -> list[np.ndarray]:
    """As `parts_of`, for processes that compute their parts together: each part has as many rows in all of them.

    TRL gathers metrics of the rows of a part, which hangs or fails where their number differs.

    Args:
        lengths: of the rows of each process, equally many.
        own: which of them is this process.
    """
    orders = [np.argsort(-rows.sum(axis=1), kind="stable") for rows in lengths]
    longest = np.max([rows[order] for rows, order in zip(lengths, orders, strict=True)], axis=0)
    return [orders[own][part] for part in parts_of(longest, max_tokens)]


def loss_in_parts(
    trainer: Any,
    model: Any,
    parts: Sequence[T],
    loss_of: Callable[[T], Any],
    after_backward: Callable[[T], None] = lambda part: None,
) -> Any:
    """The sum of the parts' losses. In training the gradients of all but the last part are already added up.

    Args:
        trainer: of transformers, whose loss is scaled for gradient accumulation. It trains while its model does.
        loss_of: the loss of a part, weighted by its share of the batch.
        after_backward: called with each part whose gradient has been added up.
    """
    *earlier, last = parts
    known, trains = 0.0, trainer.model.training
    for part in earlier:
        # Several processes average their gradients once, with those of the last part.
        with trainer.accelerator.no_sync(model) if trains else nullcontext():
            loss = loss_of(part)
            if trains:
                trainer.accelerator.backward(loss)
                after_backward(part)
        known += loss.detach()
    return loss_of(last) + known
