"""Retrievers: one contract for BM25, dense retrieval, a fusion of both, and a retriever on another host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .page_store import Page


@dataclass(frozen=True, slots=True)
class Hit:
    """A page found by a retriever. `score` is on the retriever's own scale, higher is better."""

    page: Page
    score: float


class Ranking(Protocol):
    """Ranks the pages of one corpus, given by number. The same query has the same ranking in every process."""

    def rank(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return at most k page numbers with scores, best first; equal scores in order of page number."""
        ...


class Retriever(Protocol):
    """Finds pages for a query."""

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k pages, best first."""
        ...


def fused(rankings: Sequence[Sequence[int]], k: int, *, constant: float = 60.0) -> list[tuple[int, float]]:
    """Fuse rankings: a page scores the sum of 1 / (constant + its rank) over the rankings that contain it.

    Args:
        rankings: page numbers, best first. `k`: how many to return. `constant`: reduces the weight of the first ranks.
    Returns: page numbers and fused scores, best first, ties by page number.
    Source: Cormack, Clarke, Buettcher 2009, "Reciprocal Rank Fusion outperforms Condorcet", SIGIR, which also uses 60.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, page in enumerate(ranking, start=1):
            scores[page] = scores.get(page, 0.0) + 1.0 / (constant + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]


class Hybrid:
    """Two or more rankings fused by rank. `depth`: the number of pages read from each."""

    def __init__(self, rankings: Sequence[Ranking], depth: int = 100) -> None:
        self._rankings, self._depth = rankings, depth

    def rank(self, query: str, k: int) -> list[tuple[int, float]]:
        depth = max(k, self._depth)
        return fused([[page for page, _ in ranking.rank(query, depth)] for ranking in self._rankings], k)
