"""Exact dense ranking: a memory-mapped file has one unit vector per page; a query is compared with every page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from .folders import array_at
from .page_store import Page

Floats = NDArray[np.float32]
_BLOCK = 65_536  # pages compared at once: bounds a query's memory to a few MB


class Encoder(Protocol):
    """Encodes texts as vectors. `name` is part of the index's path, so each encoder has its own index."""

    name: str
    dimensions: int

    def encode_pages(self, texts: Sequence[str]) -> Floats:
        """Return an array [n, dimensions]; each row has length 1, or 0 for a text without known words."""
        ...

    def encode_query(self, query: str) -> Floats:
        """Return an array [dimensions] of length 1, or 0 for a text without known words."""
        ...


class Dense:
    """Ranks pages by cosine with the query. Of equal pages, the lower number is first."""

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        self._vectors = array_at(folder / "vectors.npy")
        self._encoder = encoder

    def rank(self, query: str, k: int) -> list[tuple[int, float]]:
        """Rank pages as `Ranking` describes. A query with the vector 0 finds nothing."""
        query_vector = self._encoder.encode_query(query)
        if k < 1 or not query_vector.any():
            return []
        pages, scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
        for start in range(0, len(self._vectors), _BLOCK):
            block = self._vectors[start : start + _BLOCK].astype(np.float32, copy=False) @ query_vector
            pages = np.append(pages, np.arange(start, start + len(block)))
            scores = np.append(scores, block)
            order = np.lexsort((pages, -scores))[:k]
            pages, scores = pages[order], scores[order]
        return [(int(page), float(score)) for page, score in zip(pages, scores, strict=True)]


def write_vectors(folder: Path, pages: Iterable[Page], total: int, encoder: Encoder, *, batch: int = 256) -> None:
    """Encode every page's title and text, as float16, which halves the memory and hardly changes the ranks."""
    vectors = open_memmap(folder / "vectors.npy", "w+", np.float16, (total, encoder.dimensions))
    at = 0
    for texts in _batches((f"{page.title}\n{page.text}" for page in pages), batch):
        vectors[at : at + len(texts)] = encoder.encode_pages(texts)
        at += len(texts)
    vectors.flush()


def unit(vectors: Floats) -> Floats:
    """Scale rows to length 1. Rows of zeros are unchanged."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Floats = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 1e-12)
    return scaled


def _batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := list(islice(iterator, size)):
        yield batch
