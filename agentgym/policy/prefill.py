"""Divide the prefixes that rows begin with into forward passes of few tokens.

One pass over all prefixes of a batch would hold gigabytes of activations, and could not be stopped for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from transformers.cache_utils import Cache, DynamicLayer

PART_TOKENS = 512
"""The most tokens of a forward pass on a CPU. More tokens at once are not faster, and 512 take a 0.5 B model 2 s."""
PART_TOKENS_OF_A_GPU = 16_384
"""The most tokens of a forward pass on a GPU; our choice. Below some thousand tokens, fewer take as long."""


def part_tokens(device: torch.device) -> int:
    """Return the most tokens, padding included, that a forward pass on a device should have."""
    return PART_TOKENS if device.type == "cpu" else PART_TOKENS_OF_A_GPU


def rows_in_parts(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Divide rows into parts of at most `max_tokens` tokens with padding, longest rows first.

    A row with more tokens is a separate part.

    Args:
        lengths: the number of tokens of each row.
    Returns: the indices of each part's rows.
    """
    parts: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if parts and lengths[parts[-1][0]] * (len(parts[-1]) + 1) <= max_tokens:
            parts[-1].append(index)
        else:
            parts.append([index])
    return parts


def columns_in_parts(rows: int, width: int, max_tokens: int, cache: Cache) -> Iterator[tuple[int, int]]:
    """Yield begin and end of consecutive columns that hold at most `max_tokens` tokens, at least one in each row.

    All columns are one part if a layer of the cache does not keep keys and values: such a layer may be unable to read
    several tokens at once except at the beginning.
    """
    columns = max(1, max_tokens // rows)
    if not all(isinstance(layer, DynamicLayer) for layer in cache.layers):
        columns = width
    for begin in range(0, width, columns):
        yield begin, min(begin + columns, width)
