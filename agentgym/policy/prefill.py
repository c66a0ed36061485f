"""Divide the prefixes that rows begin with into forward passes of few tokens.

One pass over all prefixes of a batch would hold gigabytes of activations, and could not be stopped for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from transformers.cache_utils import Cache, DynamicLayer

PART_TOKENS = 512
"""The most tokens of a forward pass on a CPU. More tokens at once are not faster, and 512 take a 0.5 B model 2 s."""
PART_TOKENS_OF_A_GPU = 16_384
"""The most tokens of a forward pass on a GPU; our choice. Below some thousand tokens, fewer take as long."""


def part_tokens(device: torch.device) -> int:
    """Return the most tokens, padding included, that a forward pass on a device should have."""
    return PART_TOKENS if device.type == "cpu" else PART_TOKENS_OF_A_GPU


def last_column(ids: torch.Tensor) -> torch.Tensor:
    """Return the index of the last column of [B, L], as the argument `logits_to_keep` of a model.

    The model copies the column that a tensor names. The number 1 would give it a view, which torch multiplies, for one
    row in bfloat16, with a copy of the whole output layer: 0.65 s instead of 0.02 with 152 k words.
    """
    return torch.tensor([ids.shape[1] - 1], device=ids.device)


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


class AlikeGroup(NamedTuple):
    """Prefixes that begin alike.

    Attributes:
        members: the indices of the prefixes, at least two. length: the number of tokens that they share.
    """

    members: list[int]
    length: int


def shared_length(prefixes: Sequence[list[int]]) -> int:
    """Return how many tokens all prefixes begin with, leaving each at least one token of its own."""
    return min(_common(min(prefixes), max(prefixes)), min(map(len, prefixes)) - 1)


def alike_groups(prefixes: Sequence[list[int]], known: int = 0) -> list[AlikeGroup]:
    """Divide prefixes into groups that begin alike, so that the fewest tokens are computed if each group's beginning is
    computed once. A prefix that shares nothing more is in no group.

    Args:
        known: the number of tokens that all prefixes begin with and that are not computed again.
    """
    order = sorted(range(len(prefixes)), key=lambda index: prefixes[index])
    common = [_common(prefixes[left], prefixes[right]) for left, right in pairwise(order)]
    saved, cuts = [0], [0]  # of the first k prefixes: the most tokens saved, and where the last group begins
    for end in range(1, len(order) + 1):
        best, begin, length = saved[end - 1], end - 1, len(prefixes[order[end - 1]]) - 1
        for start in range(end - 2, -1, -1):
            length = min(length, common[start], len(prefixes[order[start]]) - 1)
            if length <= known:
                break
            if (total := saved[start] + (end - start - 1) * (length - known)) > best:
                best, begin = total, start
        saved.append(best)
        cuts.append(begin)
    groups, end = list[AlikeGroup](), len(order)
    while end:
        members = order[cuts[end] : end]
        if len(members) > 1:
            groups.append(AlikeGroup(members, shared_length([prefixes[member] for member in members])))
        end = cuts[end]
    return groups


def _common(left: list[int], right: list[int]) -> int:
    """Return the number of tokens with which both begin."""
    for index, (first, second) in enumerate(zip(left, right, strict=False)):
        if first != second:
            return index
    return min(len(left), len(right))
