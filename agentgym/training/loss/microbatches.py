"""A batch is computed in parts of a bounded number of tokens, rows of like length together.

So the memory of a step follows the budget instead of the batch, and little of what is computed is padding. The gradient
is that of the whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

_COST_OF_A_PART = 512
"""Tokens that could be computed in the time that one part more takes; our choice."""

T = TypeVar("T")


def parts_of(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Share out the rows of a batch so that few tokens are padding and parts are few.

    Rows are ordered by length and cut where the sum over the parts of their tokens, with padding, and of what a part
    costs is least. A row that is longer than the budget is a part by itself.

    Args:
        lengths: [rows, segments] tokens of each row's segments, each of which is padded by itself.
        max_tokens: of a part, with padding.
    Returns: the indices of the rows of each part; the longest rows first.
    """
    order = np.argsort(-lengths.sum(axis=1), kind="stable")
    ordered, count = lengths[order], len(order)
    costs, previous_cuts = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=int)
    costs[0] = 0.0
    for cut in range(count):  # costs[k] is the least for the first k rows
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
    """Split a batch for processes that compute their parts together: each part has as many rows in all of them.

    TRL gathers metrics of the rows of a part, which hangs or fails where their number differs.

    Args:
        lengths: the lengths of the rows of each process, equally many.
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
    """Return the sum of the parts' losses. In training the gradients of all but the last part are already added up.

    Args:
        trainer: a trainer of transformers, whose loss is scaled for gradient accumulation. It trains while its model
            does.
        loss_of: the loss of a part, weighted by its share of the batch.
        after_backward: called with each part whose gradient has been added up.
    """
    *earlier, last = parts
    known, trains = 0.0, trainer.model.training
    # Several processes average their gradients once, with those of the last part; sharded ones are never whole.
    waits = trains and not trainer.is_fsdp_enabled
    for part in earlier:
        with trainer.accelerator.no_sync(model) if waits else nullcontext():
            loss = loss_of(part)
            if trains:
                trainer.accelerator.backward(loss)
                after_backward(part)
        known += loss.detach()
    return loss_of(last) + known
