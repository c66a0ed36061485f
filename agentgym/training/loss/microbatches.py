"""Compute a batch in parts with a bounded number of tokens, grouping rows of similar length.

So a step's memory depends on the budget instead of the batch, and little padding is computed. The gradient equals the
whole batch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

_COST_OF_A_PART = 512
"""Overhead of one more part, in tokens that could be computed in the same time; our choice."""

T = TypeVar("T")


def parts_of(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Split the rows of a batch into few parts with little padding.

    Rows are sorted by length. The cuts minimise the total cost: tokens with padding, plus an overhead per part. A row
    longer than the budget becomes its own part.

    Args:
        lengths: [rows, segments] token counts of each row's segments; each segment is padded separately.
        max_tokens: maximum number of tokens in a part, with padding.
    Returns: the row indices of each part, longest rows first.
    """
    order = np.argsort(-lengths.sum(axis=1), kind="stable")
    ordered, count = lengths[order], len(order)
    costs, previous_cuts = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=int)
    costs[0] = 0.0
    for cut in range(count):  # costs[k] is the minimum cost of the first k rows
        sizes = np.maximum.accumulate(ordered[cut:], axis=0).sum(axis=1) * np.arange(1, count - cut + 1)
        candidates = np.where(sizes <= max_tokens, costs[cut] + sizes + _COST_OF_A_PART, np.inf)
        candidates[0] = costs[cut] + sizes[0] + _COST_OF_A_PART
        is_less = candidates < costs[cut + 1 :]
        costs[cut + 1 :][is_less], previous_cuts[cut + 1 :][is_less] = candidates[is_less], cut
    cuts = [count]
    while cuts[-1] > 0:
        cuts.append(int(previous_cuts[cuts[-1]]))
    return [order[start:end] for end, start in reversed(list(pairwise(cuts)))]


def parts_alike(lengths: Sequence[np.ndarray], own: int, max_tokens: int) -> list[np.ndarray]:
    """Split a batch alike in all processes: each part has the same number of rows in every process.

    TRL gathers metrics of a part's rows, which hangs or fails if their number differs between processes.

    Args:
        lengths: the row lengths of each process; all processes have the same number of rows.
        own: the index of this process.
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
    """Return the sum of the parts' losses. In training, the gradients of all but the last part are accumulated here.

    Args:
        trainer: a transformers trainer whose loss is scaled for gradient accumulation. It counts as training if its
            model is in training mode.
        loss_of: returns the loss of a part, weighted by the part's share of the batch.
        after_backward: called with each part after its gradient is accumulated.
    """
    *earlier, last = parts
    known, trains = 0.0, trainer.model.training
    # Processes average their gradients once, with the last part; sharded gradients must be reduced in every part.
    waits = trains and not trainer.is_fsdp_enabled
    for part in earlier:
        with trainer.accelerator.no_sync(model) if waits else nullcontext():
            loss = loss_of(part)
            if trains:
                trainer.accelerator.backward(loss)
                after_backward(part)
        known += loss.detach()
    return loss_of(last) + known
