"""Keys and values of many conversations: the cache in which a batch decodes, and the prefix that a turn leaves.

A model's own cache is copied at every token. This cache is a single block, written in place: rows can be loaded from
earlier turns, saved for later turns, and dropped when finished.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer


@dataclass(frozen=True, slots=True)
class KVPrefix:
    """The keys and values that the model has already computed for a conversation.

    Attributes:
        ids: the tokens, from the first on.
        block: [2 * layers, heads, len(ids), head_dim], keys and values of each layer in turn.
        weights: a key of the weights that computed the block.
    """

    ids: list[int]
    block: torch.Tensor
    weights: Hashable = None

    def covers(self, prefix: Sequence[int]) -> bool:
        """Return whether a prefix begins with these tokens and is longer."""
        return len(prefix) > len(self.ids) and list(prefix[: len(self.ids)]) == self.ids


def can_share(config: Any) -> bool:
    """Return whether all layers of a model use plain keys and values, so that conversations can be split and joined."""
    layers = DynamicCache(config=config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def uniform(cache: Cache) -> bool:
    """Return whether the layers of a filled cache have equal shapes, so that one block can hold them."""
    shapes = {part.shape for layer in cache.layers for part in (layer.keys, layer.values) if part is not None}
    return len(shapes) == 1


def parts_of(cache: Cache) -> list[torch.Tensor]:
    """Return [2 * layers] the keys and values of each layer of a filled cache in turn: [B, heads, L, head_dim]."""
    return [part for layer in cache.layers for part in (layer.keys, layer.values)]


class BlockLayer(DynamicLayer):
    """One layer's view of the block."""

    def __init__(self, owner: Block, layer_index: int) -> None:
        super().__init__()
        self._owner, self._layer_index = owner, layer_index
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        """Append new keys and values to the existing ones; return all of them."""
        data, begin = self._owner.data, self._owner.used
        end = begin + key_states.shape[-2]
        keys, values = data[2 * self._layer_index], data[2 * self._layer_index + 1]
        keys[:, :, begin:end] = key_states
        values[:, :, begin:end] = value_states
        return keys[:, :, :end], values[:, :, :end]

    def get_seq_length(self) -> int:
        """Return the number of columns in use before this forward pass."""
        return self._owner.used


class Block:
    """[2 * layers, B, heads, columns, head_dim] keys and values, written in place.

    Attributes:
        data: the tensor.
        used: the number of filled columns, the same for all rows; increased by `advance` after a forward pass, because
            all layers of one pass write to the same columns.
        cache: the cache to pass to the model.
    """

    def __init__(self, parts: int, like: torch.Tensor, rows: int, columns: int) -> None:
        """`parts`: 2 * layers. `like`: [..., heads, any, head_dim], an example of a layer's keys or values."""
        heads, head_dim = like.shape[-3], like.shape[-1]
        self.data = torch.zeros(parts, rows, heads, columns, head_dim, dtype=like.dtype, device=like.device)
        self.used = 0
        self.cache = Cache(layers=[BlockLayer(self, layer_index) for layer_index in range(parts // 2)])

    def advance(self, columns: int) -> None:
        """Count the columns of a finished forward pass."""
        self.used += columns

    def keep(self, rows: torch.Tensor) -> None:
        """Keep (or repeat) only these rows, in this order."""
        selected = self.data.new_zeros(self.data.shape[0], len(rows), *self.data.shape[2:])
        selected[..., : self.used, :] = self.data[:, rows, :, : self.used]
        self.data = selected

    def take(self, row: int, columns: torch.Tensor) -> torch.Tensor:
        """Return a copy of one row's columns, for a KVPrefix."""
        return self.data[:, row].index_select(2, columns)
