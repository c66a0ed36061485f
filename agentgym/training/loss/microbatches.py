"""Computes a batch in parts with a limited number of tokens, grouping rows of similar length.

So a step's memory depends on the budget instead of the batch, and little padding is computed. The gradient equals the
whole batch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

_COST_OF_A_PART = 512
"""Overhead of one more part, as the number of tokens computed in the same time; our choice."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowSizes:
    """The sizes of a batch's rows.

    Attributes:
        lengths: [rows, segments] token counts of each row's segments.
        prompts: [rows] a number per row. Rows with the same number have the same tokens in all segments but the last;
            these common segments are computed once.
        is_padded: whether each segment is padded to the longest of a part.
    """

    lengths: NDArray[np.int64]
    prompts: NDArray[np.int64]
    is_padded: bool = False

    @classmethod
    def unshared(cls, lengths: NDArray[np.int64]) -> RowSizes:
        """Return the sizes of rows that share nothing and are padded."""
        return cls(lengths, np.arange(len(lengths)), is_padded=True)

    @classmethod
    def of(cls, batch: Mapping[str, torch.Tensor]) -> RowSizes:
        """Return the sizes of rows that share their prompt with rows whose prompt has the same tokens.

        Args:
            batch: prompt_ids, [rows, P] tokens, and prompt_mask, 1 on those that are not padding; completion_mask,
                [rows, T], the same for the tokens after the prompt.
        """
        lengths = torch.stack([batch["prompt_mask"].sum(1), batch["completion_mask"].sum(1)], 1).cpu().numpy()
        tokens = (batch["prompt_ids"] + 1) * batch["prompt_mask"]
        return cls(lengths, np.unique(tokens.cpu().numpy(), axis=0, return_inverse=True)[1].reshape(-1))

    def take(self, rows: NDArray[np.int64]) -> RowSizes:
        """Return the sizes of some rows."""
        return RowSizes(self.lengths[rows], self.prompts[rows], self.is_padded)

    def tokens(self, begin: int = 0) -> NDArray[np.int64]:
        """Return [rows - begin] how many tokens are computed of row `begin`, of it and the next, and so on."""
        lengths = self.lengths[begin:]
        rows, begins = np.arange(1, len(lengths) + 1), np.diff(self.prompts[begin:], prepend=-1) != 0
        if not self.is_padded:
            return np.cumsum(lengths[:, :-1].sum(1) * begins + lengths[:, -1])
        longest = np.maximum.accumulate(lengths, axis=0)
        padded: NDArray[np.int64] = longest[:, :-1].sum(1) * np.cumsum(begins) + longest[:, -1] * rows
        return padded

    def order(self) -> NDArray[np.int64]:
        """Return the rows, with those of the same prompt together, and prompts with the longest row first."""
        longest = np.zeros(int(self.prompts.max(initial=-1)) + 1, int)
        np.maximum.at(longest, self.prompts, self.lengths.sum(1))
        return np.lexsort((self.prompts, -longest[self.prompts]))


def parts_of(sizes: RowSizes, max_tokens: int) -> list[np.ndarray]:
    """Split the rows of a batch into few parts with little padding, and with rows that share a prompt together.

    The rows are put in order and cut so that the total cost is least: computed tokens, plus an overhead per part. A row
    longer than `max_tokens` becomes a part of its own.

    Args:
        max_tokens: maximum number of computed tokens in a part.
    Returns: the row indices of each part, longest rows first.
    """
    return parts_alike([sizes], 0, max_tokens)


def parts_alike(sizes: Sequence[RowSizes], own: int, max_tokens: int) -> list[np.ndarray]:
    """Split a batch in the same way in all processes: each part has the same number of rows in every process.

    TRL gathers metrics of a part's rows, which hangs or fails if their number differs between processes.

    Args:
        sizes: the rows of each process; all processes have the same number of rows.
        own: the index of this process.
    """
    orders = [rows.order() for rows in sizes]
    cuts = _cheapest_cuts([rows.take(order) for rows, order in zip(sizes, orders, strict=True)], max_tokens)
    return [orders[own][begin:end] for begin, end in cuts]


def slices_of(sizes: Sequence[RowSizes], max_tokens: int) -> list[slice]:
    """Split a batch in the same way in all processes, like `parts_alike`, but keep the order of its rows."""
    return [slice(begin, end) for begin, end in _cheapest_cuts(sizes, max_tokens)]


def _cheapest_cuts(sizes: Sequence[RowSizes], max_tokens: int) -> list[tuple[int, int]]:
    """Return begin and end of the parts of ordered rows that cost least and stay within the budget everywhere."""
    count = len(sizes[0].lengths)
    totals, previous = np.full(count + 1, np.inf), np.zeros(count + 1, int)
    totals[0] = 0.0  # totals[k] is the least cost of the first k rows
    for begin in range(count):
        computed = np.max([each.tokens(begin) for each in sizes], axis=0)
        fits = computed <= max_tokens
        fits[0] = True
        candidates = np.where(fits, totals[begin] + computed + _COST_OF_A_PART, np.inf)
        is_less = candidates < totals[begin + 1 :]
        totals[begin + 1 :][is_less], previous[begin + 1 :][is_less] = candidates[is_less], begin
    ends = [count]
    while ends[-1] > 0:
        ends.append(int(previous[ends[-1]]))
    return list(pairwise(reversed(ends)))


def loss_in_parts(
    trainer: Any,
    model: Any,
    parts: Sequence[T],
    loss_of: Callable[[T], Any],
    after_backward: Callable[[T], None] = lambda part: None,
) -> Any:
    """Return the sum of the parts' losses. In training, the gradients of all parts but the last are accumulated here,
    that of the last by the trainer.

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
