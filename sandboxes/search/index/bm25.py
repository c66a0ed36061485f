"""Exact BM25 over memory-mapped postings, with pruning: a query reads only the postings that can change the result.

Hand-written, because the pages that agents see must not change: tantivy rounds lengths and so ranks some pages
differently; bm25s orders equal scores differently, and holds the corpus in memory to index it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .folders import array_at
from .keys import Keys
from .words import words

Floats = NDArray[np.float32]
MAX_QUERY_TERMS = 64


class Bm25:
    """Ranks pages by BM25. Thread-safe; many episodes share one instance.

    A term's postings are page numbers in order, each with the term's complete contribution to that page's score,
    computed when the index was built. A query adds them up, starting with the term of the largest contribution. Once
    the remaining terms can add less than the k-th best page's score, no new page can enter: the remaining terms are
    looked up only for pages that can still rank (MaxScore: Turtle and Flood 1995, Inf. Process. Manag. 31(6)).
    """

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / "about.json").read_text())
        self._size: int = about["pages"]
        self._terms = Keys(folder, "terms")
        self._starts = array_at(folder / "starts.npy")
        self._pages = array_at(folder / "pages.npy")
        self._gains = array_at(folder / "gains.npy")
        self._most = array_at(folder / "most.npy")
        self._spare: list[Floats] = []  # zeroed arrays of a score per page; a query in progress uses one

    def rank(self, query: str, k: int) -> list[tuple[int, float]]:
        """Rank pages as `Ranking` describes, without pages that share no word with the query."""
        terms = self._terms_of(query)
        if not terms or k < 1:
            return []
        try:
            scores = self._spare.pop()
        except IndexError:
            scores = np.zeros(self._size, np.float32)
        pages, read = self._gather(terms, k, scores)
        values = scores[pages]
        scores[read] = 0.0
        self._spare.append(scores)
        if len(pages) > k:  # keep the k best, and all pages tied with the last of them
            last = np.partition(values, len(values) - k)[len(values) - k]
            best = np.flatnonzero(values >= last)
            pages, values = pages[best], values[best]
        order = np.lexsort((pages, -values))[:k]
        return [(int(pages[index]), float(values[index])) for index in order]

    def _terms_of(self, query: str) -> list[tuple[int, float, float]]:
        """Return for each known term its number, count in the query and highest gain; the highest gain first."""
        counts = Counter(words(query)[: 4 * MAX_QUERY_TERMS])
        known = [(self._terms.get(word), count) for word, count in counts.items()]
        terms = [(term, float(count), count * float(self._most[term])) for term, count in known if term is not None]
        return sorted(terms, key=lambda item: (-item[2], item[0]))[:MAX_QUERY_TERMS]

    def _gather(
        self, terms: list[tuple[int, float, float]], k: int, scores: Floats
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Fill `scores`. Returns: candidates for the best k, with complete scores; all pages with a changed score."""
        touched: list[NDArray[np.int32]] = []
        rest = float(sum(most for _, _, most in terms))
        for index, (term, count, most) in enumerate(terms):
            start, end = self._starts[term : term + 2]
            scored = sum(map(len, touched))
            if scored >= k and end - start > scored // 4:  # a long list: check first whether new pages can still enter
                pages = np.concatenate(touched)
                least = _kth(scores[pages], k)
                if rest * _SLACK < least:
                    return self._finish(terms[index:], rest, least, pages, scores), pages
            pages, gains = self._pages[start:end], self._gains[start:end]
            before = scores[pages]
            scores[pages] = before + (gains if count == 1 else gains * np.float32(count))
            touched.append(pages[before == 0] if index else pages)
            rest -= most
        every = np.concatenate(touched)
        return every, every

    def _finish(
        self,
        terms: list[tuple[int, float, float]],
        rest: float,
        least: float,
        pages: NDArray[np.int32],
        scores: Floats,
    ) -> NDArray[np.int32]:
        """Add the gains of the remaining terms to the pages that can still rank among the best, and return these pages.

        `rest`: the most that these terms can add to a score. `least`: the k-th best score so far.
        """
        pages = np.sort(pages[scores[pages] + np.float32(rest * _SLACK) >= least])
        for term, count, _ in terms:
            start, end = self._starts[term : term + 2]
            postings = self._pages[start:end]
            indices = np.searchsorted(postings, pages)
            indices[indices == len(postings)] = 0
            hit = postings[indices] == pages
            scores[pages[hit]] += self._gains[start:end][indices[hit]] * np.float32(count)
        return pages


_SLACK = 1.0001  # float32 sums may exceed the bound, which is summed in a different order


def _kth(values: Floats, k: int) -> float:
    """Return the k-th largest value."""
    return float(np.partition(values, len(values) - k)[len(values) - k])
