"""`AnyText`, the space of all texts, and its texts in the shared memory of Gymnasium's AsyncVectorEnv."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from ctypes import c_uint8
from typing import Any, overload

import gymnasium
import numpy as np
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

MAX_CHARS = 1_000_000
_LENGTH = np.dtype(np.int64)


class AnyText(gymnasium.spaces.Text):
    """Any text up to a maximum length, with any characters; samples are printable ASCII."""

    def __init__(self, max_length: int = MAX_CHARS) -> None:
        super().__init__(max_length, min_length=0, charset="".join(map(chr, range(32, 127))))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return up to 200 random characters."""
        length = int(self.np_random.integers(0, 201))
        return "".join(self.np_random.choice(list(self.character_list), size=length)) if length else ""

    def __repr__(self) -> str:
        return f"AnyText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText) and other.max_length == self.max_length

    __hash__ = None  # type: ignore[assignment]


class SharedTexts(Sequence[str]):
    """The texts that the processes of an AsyncVectorEnv wrote last, read on access; a deep copy is a tuple of them."""

    def __init__(self, memory: Any, count: int) -> None:
        self._rows = np.frombuffer(memory.get_obj(), dtype=np.uint8).reshape(count, -1)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        row = self._rows[index]
        length = int(row[: _LENGTH.itemsize].view(_LENGTH)[0])
        data: bytes = row[_LENGTH.itemsize :][:length].tobytes()
        return data.decode("utf-8", "surrogatepass")

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)

    def write(self, index: int, text: str) -> None:
        """Write one text. Raises: ValueError if its UTF-8 is longer than the space's maximum length."""
        data, row = text.encode("utf-8", "surrogatepass"), self._rows[index]
        room = len(row) - _LENGTH.itemsize
        if len(data) > room:
            raise ValueError(f"An observation of {len(data):,} bytes exceeds {room:,}. Pass shared_memory=False.")
        row[: _LENGTH.itemsize].view(_LENGTH)[0] = len(data)
        row[_LENGTH.itemsize :][: len(data)] = np.frombuffer(data, dtype=np.uint8)


@create_shared_memory.register(AnyText)
def _create(space: AnyText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    size = -(-space.max_length // _LENGTH.itemsize) * _LENGTH.itemsize
    return ctx.Array(c_uint8, n * (_LENGTH.itemsize + size))


@read_from_shared_memory.register(AnyText)
def _read(space: AnyText, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory, n)


@write_to_shared_memory.register(AnyText)
def _write(space: AnyText, index: int, value: str, shared_memory: Any) -> None:
    size = _LENGTH.itemsize * (1 + -(-space.max_length // _LENGTH.itemsize))
    SharedTexts(shared_memory, len(shared_memory) // size).write(index, value)
