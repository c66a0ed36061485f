"""Maps texts to numbers without a dictionary in memory: looks up 64-bit hashes in a sorted memory-mapped array."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .folders import array_at


class Keys:
    """Maps each text to its number. The arrays are memory-mapped, so processes share them."""

    def __init__(self, folder: Path, name: str) -> None:
        self._hashes = array_at(folder / f"{name}.hashes.npy")
        self._numbers = array_at(folder / f"{name}.numbers.npy")

    def __len__(self) -> int:
        return len(self._hashes)

    def get(self, text: str) -> int | None:
        """Return the number of a text; None if the text is unknown. For one unknown text in 2**64 / len(self), the
        number of another text is returned.
        """
        text_hash = _hash(text)
        index = int(np.searchsorted(self._hashes, text_hash))
        is_match = index < len(self._hashes) and self._hashes[index] == text_hash
        return int(self._numbers[index]) if is_match else None


def write_keys(folder: Path, name: str, texts: Iterable[str]) -> None:
    """Write the texts' numbers 0, 1, ... in order. Raises: ValueError if two texts have the same hash, for example
    because they are equal.
    """
    hashes: NDArray[np.uint64] = np.fromiter((_hash(text) for text in texts), np.uint64)
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    if len(hashes) > 1 and (same := np.flatnonzero(hashes[1:] == hashes[:-1])).size:
        first, other = order[same[0]], order[same[0] + 1]
        raise ValueError(f"The texts number {first} and {other} of {name} have the same hash. Give each text once.")
    np.save(folder / f"{name}.hashes.npy", hashes)
    np.save(folder / f"{name}.numbers.npy", order.astype(np.int32))


def _hash(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little"))
