"""Builds the postings of BM25 in blocks of pages, so that memory holds one block instead of the corpus."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from agentgym import TaskError

from .keys import write_keys
from .page_store import Page
from .words import ANALYSIS, words

VERSION = f"bm25-2-{ANALYSIS}"
BLOCK = 20_000
K1, B = 1.2, 0.75


def write_bm25(folder: Path, pages: Iterable[Page], *, k1: float = K1, b: float = B) -> None:
    """Index titles and texts. A term in a page gains idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean)).

    idf is log(1 + (N - df + 0.5) / (df + 0.5)), never negative, as in Lucene; lengths count index terms.
    Source: Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework", section 3.
    """
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        blocks, lengths = _write_blocks(Path(scratch), pages, numbers)
        if not numbers:
            raise TaskError("No page of the corpus contains a word that can be searched for.")
        frequency = np.zeros(len(numbers), np.int64)
        for block in blocks:
            frequency += np.bincount(np.load(block / "terms.npy"), minlength=len(numbers))
        starts = np.concatenate([[0], np.cumsum(frequency)])
        every = open_memmap(folder / "pages.npy", "w+", np.int32, (int(starts[-1]),))
        gains = open_memmap(folder / "gains.npy", "w+", np.float32, every.shape)
        total = len(lengths)
        idf = np.log1p((total - frequency + 0.5) / (frequency + 0.5))
        norm = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9))
        most = np.zeros(len(numbers), np.float32)
        following = starts[:-1].copy()
        for block in blocks:
            terms, page_numbers, times = (np.load(block / f"{name}.npy") for name in ("terms", "pages", "times"))
            first = np.flatnonzero(np.concatenate([[True], terms[1:] != terms[:-1]]))
            counts = np.diff(np.append(first, len(terms)))
            target = following[terms] + np.arange(len(terms)) - np.repeat(first, counts)
            gain = (idf[terms] * times * (k1 + 1) / (times + norm[page_numbers])).astype(np.float32)
            every[target], gains[target] = page_numbers, gain
            following[terms[first]] += counts
            most[terms[first]] = np.maximum(most[terms[first]], np.maximum.reduceat(gain, first))
        every.flush()
        gains.flush()
    np.save(folder / "starts.npy", starts)
    np.save(folder / "most.npy", most)
    write_keys(folder, "terms", numbers)
    about = {"version": VERSION, "pages": total, "terms": len(numbers), "postings": int(starts[-1]), "k1": k1, "b": b}
    (folder / "about.json").write_text(json.dumps(about))


def _write_blocks(
    scratch: Path, pages: Iterable[Page], numbers: defaultdict[str, int]
) -> tuple[list[Path], NDArray[np.float64]]:
    """Write term, page and count of every posting, sorted, into one folder per block.

    `numbers`: gives each term its number. Returns: the folders, and the pages' lengths.
    """
    blocks: list[Path] = []
    lengths: list[int] = []
    for block in _in_blocks(pages):
        terms: list[int] = []
        before = len(lengths)
        for page in block:
            term_numbers = [numbers[word] for word in words(f"{page.title}\n{page.text}")]
            terms += term_numbers
            lengths.append(len(term_numbers))
        if not terms:
            continue
        owners = np.repeat(np.arange(len(block)), lengths[before:])
        codes, times = np.unique(np.array(terms, np.int64) * BLOCK + owners, return_counts=True)
        folder = scratch / str(len(blocks))
        folder.mkdir()
        np.save(folder / "terms.npy", (codes // BLOCK).astype(np.int32))
        np.save(folder / "pages.npy", (codes % BLOCK + before).astype(np.int32))
        np.save(folder / "times.npy", times.astype(np.int32))
        blocks.append(folder)
    return blocks, np.array(lengths, np.float64)


def _in_blocks(pages: Iterable[Page]) -> Iterator[list[Page]]:
    block: list[Page] = []
    for page in pages:
        block.append(page)
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block
