"""Keys and values of many conversations: the cache in which a batch decodes, and the prefix that a turn leaves.

transformers copies a model's own cache at every token. This cache is a single block, written in place: rows are loaded
from earlier turns, saved for later turns, and join and leave a running batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer


@dataclass(frozen=True, slots=True)
class KVPrefix:
    """The keys and values that the model has already computed for a conversation.

    Attributes:
        ids: the conversation's tokens from the beginning.
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


def block_of(cache: Cache) -> torch.Tensor:
    """Return [2 * layers, B, heads, L, head_dim] the keys and values of each layer of a filled, uniform cache.

    Under autocast they have its dtype, to which attention would otherwise cast all of them for each token.
    """
    if isinstance(cache, Block):
        return cache.data
    parts = [part for layer in cache.layers for part in (layer.keys, layer.values)]
    device = parts[0].device.type
    if torch.is_autocast_enabled(device):
        parts = [part.to(torch.get_autocast_dtype(device)) for part in parts]
    return torch.stack(parts)


class BlockLayer(DynamicLayer):
    """One layer's view of a block.

    Args:
        keys, values: [rows, heads, columns, head_dim]. filled: the number of columns that are filled.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, filled: int) -> None:
        super().__init__()
        self.keys, self.values, self._filled = keys, values, filled
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        """Write new keys and values behind the existing ones; return all of them."""
        begin, end = self._filled, self._filled + key_states.shape[-2]
        self.keys[:, :, begin:end] = key_states
        self.values[:, :, begin:end] = value_states
        self._filled = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        """Return the number of columns that are filled."""
        return self._filled


class Block(Cache):
    """Keys and values that are written in place.

    Args:
        pasts: the keys and values that each row begins with; at least one row has some. They end in the same column.
        columns: the number of columns of the block.

    Attributes:
        data: [2 * layers, rows, heads, columns, head_dim].
    """

    def __init__(self, pasts: Sequence[KVPrefix | None], columns: int) -> None:
        known = [(row, past.block) for row, past in enumerate(pasts) if past is not None]
        (parts, heads, _, head_dim), first = known[0][1].shape, known[0][1]
        filled = max(block.shape[2] for _, block in known)
        self.data = torch.zeros(parts, len(pasts), heads, columns, head_dim, dtype=first.dtype, device=first.device)
        for row, block in known:
            self.data[:, row, :, filled - block.shape[2] : filled] = block
        pairs = (self.data[part : part + 2] for part in range(0, parts, 2))
        super().__init__(layers=[BlockLayer(keys, values, filled) for keys, values in pairs])


class RunningRows(ABC):
    """The keys and values of the rows that are sampled together.

    Attributes:
        lengths: the number of tokens of each row.
    """

    def __init__(self) -> None:
        self.lengths: list[int] = []

    @abstractmethod
    def next_pass(self, lengths: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Prepare the forward pass of each row's next token.

        Args:
            lengths: [B] the attribute `lengths`, as a tensor on the model's device.
        Returns: [B, columns] the attention mask, and the cache.
        """

    @abstractmethod
    def keep(self, order: list[int]) -> None:
        """Keep only these rows, in this order. A row moves, if at all, to an earlier place, whose row is dropped."""

    def advance(self) -> None:
        """Add 1 to each row's length, after a forward pass."""
        self.lengths = [length + 1 for length in self.lengths]


class SlotLayer(DynamicLayer):
    """One layer's view of the slots."""

    def __init__(self, owner: RowSlots, layer_index: int) -> None:
        super().__init__()
        self._owner, self._layer_index = owner, layer_index
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        """Append the key and value of each row's next token to the row; return all keys and values."""
        rows, columns = self._owner.places
        keys, values = self._owner.data[2 * self._layer_index], self._owner.data[2 * self._layer_index + 1]
        # Under autocast, keys that are normed or turned have another dtype than the block.
        keys[rows, :, columns], values[rows, :, columns] = (
            states[:, :, 0].to(keys.dtype) for states in (key_states, value_states)
        )
        count, end = len(key_states), self.get_seq_length() + 1
        return keys[:count, :, :end], values[:count, :, :end]

    def get_seq_length(self) -> int:
        """Return the number of tokens of the longest row."""
        return max(self._owner.lengths)


class RowSlots(RunningRows):
    """Rows in one block, each from the first column on. A row may join at any time, in any free place.

    Args:
        max_tokens: the largest number of tokens that the block has room for, unless the rows need more.

    Attributes:
        data: [2 * layers, slots, heads, columns, head_dim] the keys and values; the first slots are in use.
        places: for the next forward pass, the slots of its rows, and the column of each row's next token.
    """

    STEP = 128
    """The number of columns is a multiple of this."""

    def __init__(self, max_tokens: int) -> None:
        super().__init__()
        self._max_tokens = max_tokens
        self._most: list[int] = []  # how many tokens each row can have at its end
        self._reserved = (0, 0)  # rows, and tokens of the longest
        self._cache: Cache | None = None
        self.data = torch.empty(0)
        self.places: tuple[torch.Tensor, torch.Tensor] = (torch.empty(0), torch.empty(0))

    def next_pass(self, lengths: torch.Tensor) -> tuple[torch.Tensor, Any]:
        self.places = torch.arange(len(lengths), device=lengths.device), lengths
        columns = torch.arange(max(self.lengths) + 1, device=lengths.device)
        return (columns <= lengths[:, None]).long(), self._cache

    def reserve(self, rows: int, most: int) -> None:
        """Let the next block have room for further rows, which join next. `most`: the most tokens that one can have."""
        self._reserved = len(self.lengths) + rows, most

    def join(self, rows: Iterable[torch.Tensor], lengths: Sequence[int], most: Sequence[int]) -> None:
        """Add rows.

        Args:
            rows: each [2 * layers, heads, tokens, head_dim], a row's keys and values.
            lengths: the number of tokens of each row. most: the number that each can have at its end.
        """
        begin = len(self.lengths)
        self._most += most
        self.lengths += lengths
        for index, row in enumerate(rows, begin):
            if index == begin:
                self._make_room(row, begin)
            self.data[:, index, :, : row.shape[2]] = row

    def keep(self, order: list[int]) -> None:
        for index, old in enumerate(order):
            if index != old:
                self.data[:, index, :, : self.lengths[old]] = self.data[:, old, :, : self.lengths[old]]
        self.lengths, self._most = ([values[old] for old in order] for values in (self.lengths, self._most))

    def take(self, row: int) -> torch.Tensor:
        """Return [2 * layers, heads, tokens, head_dim] a copy of a row."""
        return self.data[:, row, :, : self.lengths[row]].clone()

    def _make_room(self, like: torch.Tensor, filled: int) -> None:
        """Enlarge the block until it has room for all rows.

        Args:
            like: [2 * layers, heads, any, head_dim] an example of a row. filled: the number of rows that the block
                holds.
        """
        parts, heads, _, head_dim = like.shape
        slots, columns = self.data.shape[1:4:2] if self._cache is not None else (0, 0)
        rows, most = max(len(self.lengths), self._reserved[0]), max(*self._most, self._reserved[1])
        if rows <= slots and most <= columns:
            return
        columns = max(columns, -(-most // self.STEP) * self.STEP)
        if rows > slots:  # some more, if rows join one by one
            more = rows // 4 if filled else 0
            slots = max(rows, min(rows + more, self._max_tokens // columns))
        before, width = self.data, max(self.lengths[:filled], default=0)
        self.data = torch.zeros(parts, slots, heads, columns, head_dim, dtype=like.dtype, device=like.device)
        if filled:
            self.data[:, :filled, :, :width] = before[:, :filled, :, :width]
        self._cache = Cache(layers=[SlotLayer(self, layer_index) for layer_index in range(parts // 2)])


class PlainRows(RunningRows):
    """Rows in a model's own cache, padded on the left: for models whose keys and values one block cannot hold.

    No row can join the others later.
    """

    def __init__(self, cache: Cache, lengths: list[int], device: torch.device) -> None:
        super().__init__()
        self._cache, self.lengths, self._device = cache, lengths, device
        self._width = max(lengths)

    def next_pass(self, lengths: torch.Tensor) -> tuple[torch.Tensor, Any]:
        columns = torch.arange(self._width + 1, device=lengths.device)
        return (columns >= self._width - lengths[:, None]).long(), self._cache

    def keep(self, order: list[int]) -> None:
        self._cache.batch_select_indices(torch.tensor(order, device=self._device))
        self.lengths = [self.lengths[old] for old in order]

    def advance(self) -> None:
        super().advance()
        self._width += 1
