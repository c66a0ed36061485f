"""Latent semantic analysis: a dense encoder learned from the corpus itself, without downloaded weights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agentgym import MissingExtraError, install_command

from .dense import Floats, unit
from .folders import array_at
from .keys import Keys
from .words import words

VERSION = "lsa-1"


class Lsa:
    """Texts as points in the space of the leading singular vectors of the corpus's weighted term matrix.

    The matrix holds BM25's gains. A text is projected with the weight (1 + log tf) * idf for each term, without
    division by the singular values. Source: Deerwester et al. 1990, "Indexing by latent semantic analysis", JASIS
    41(6); the weights are our choice.

    Args:
        folder: the folder that `write_lsa` wrote. `bm25`: the folder of the same corpus's BM25 index, whose terms are
            used.
    """

    def __init__(self, folder: Path, bm25: Path) -> None:
        self._terms = Keys(bm25, "terms")
        self._directions = array_at(folder / "directions.npy")
        self._idf = array_at(folder / "idf.npy")
        self.dimensions: int = self._directions.shape[1]
        self.name = f"lsa-{self.dimensions}"

    def encode_pages(self, texts: Sequence[str]) -> Floats:
        return np.stack([self.encode_query(text) for text in texts])

    def encode_query(self, query: str) -> Floats:
        counts = Counter(words(query))
        known = [(self._terms.get(word), count) for word, count in counts.items()]
        pairs = [(term, count) for term, count in known if term is not None]
        if not pairs:
            return np.zeros(self.dimensions, np.float32)
        terms = np.array([term for term, _ in pairs])
        weights = (1 + np.log([count for _, count in pairs])) * self._idf[terms]
        return unit((weights @ self._directions[terms].astype(np.float64)).astype(np.float32))


def write_lsa(folder: Path, bm25: Path, dimensions: int) -> None:
    """Compute the leading directions from the postings of a BM25 index, and write them into `folder`.

    Raises: MissingExtraError without scikit-learn.
    """
    try:
        from scipy.sparse import csc_matrix
        from sklearn.utils.extmath import randomized_svd
    except ImportError as error:
        raise MissingExtraError(
            f"A dense index of the corpus's own words needs the package scikit-learn. Run: {install_command('search')}"
        ) from error
    about = json.loads((bm25 / "about.json").read_text())
    starts, pages, gains = (np.load(bm25 / f"{name}.npy") for name in ("starts", "pages", "gains"))
    frequency = np.diff(starts)
    idf = np.log1p((about["pages"] - frequency + 0.5) / (frequency + 0.5))
    matrix = csc_matrix((gains, pages, starts), shape=(about["pages"], about["terms"]))
    rank = max(1, min(dimensions, min(matrix.shape) - 1))
    _, _, right = randomized_svd(matrix, rank, n_iter=4, random_state=0)
    np.save(folder / "directions.npy", np.ascontiguousarray(right.T, np.float32))
    np.save(folder / "idf.npy", idf.astype(np.float32))
