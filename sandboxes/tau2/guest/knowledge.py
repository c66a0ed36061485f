"""Search in a domain's documents: by words (BM25) and by regular expressions. Names are those of tau2.

What needs a model, such as embeddings and rerankers, is not supported. The seconds that a search took are given as 0,
so that equal calls have equal results.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

K1, B, EPSILON = 1.5, 0.75, 0.25
"""The parameters of BM25 that the package rank_bm25 has by default."""


@dataclass(frozen=True)
class RetrievalTiming:
    """The milliseconds of a search's parts."""

    retrieval_ms: float = 0.0
    postprocessing_ms: float = 0.0
    total_ms: float = 0.0


@dataclass(frozen=True)
class RetrievalResult:
    """Found documents: their ids, and how well each matches."""

    results: list[tuple[str, float]]
    timing: RetrievalTiming = field(default_factory=RetrievalTiming)


class RetrievalPipeline:
    """Finds documents, best first."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Read a configuration. Raises: ValueError if it needs a model."""
        retriever = config["retriever"]
        self._kind, self._options = retriever["type"], dict(retriever.get("params", {}))
        if self._kind not in ("bm25", "grep") or config.get("postprocessors") or config.get("input_preprocessors"):
            raise ValueError(f"{self._kind} search needs a model; give a retrieval of words alone, such as bm25_grep")
        self._titles: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._words: dict[str, Counter[str]] = {}
        self._lengths: dict[str, float] = {}  # in words, as multiples of the mean
        self._weights: dict[str, float] = {}

    def index_documents(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Take the documents to search in, each with `id`, `text` and `title`."""
        ordered = sorted(documents, key=lambda document: str(document["id"]))  # a folder lists its files in any order
        self._titles = {document["id"]: document.get("title", document["id"]) for document in ordered}
        self._texts = {document["id"]: document.get("text") or "" for document in ordered}
        if self._kind == "bm25":
            self._words = {name: Counter(text.lower().split()) for name, text in self._texts.items()}
            self._weights = _weights(self._words.values())
            mean = sum(words.total() for words in self._words.values()) / max(len(self._words), 1)
            self._lengths = {name: words.total() / (mean or 1.0) for name, words in self._words.items()}

    def retrieve(self, query: str, top_k: int | None = None, return_timing: bool = False) -> Any:
        """Return the ids and scores of the best documents, as a RetrievalResult if `return_timing`."""
        scores = (self._by_words if self._kind == "bm25" else self._by_pattern)(query) if query.strip() else []
        best = sorted(scores, key=lambda each: -each[1])[: self._options.get("top_k", 10)][:top_k]
        return RetrievalResult(best) if return_timing else best

    def get_document_title(self, name: str) -> str | None:
        return self._titles.get(name)

    def get_document_content(self, name: str) -> str | None:
        return self._texts.get(name)

    def _by_words(self, query: str) -> list[tuple[str, float]]:
        """Score by BM25 (Robertson and Zaragoza 2009)."""
        terms = query.lower().split()
        return [
            (name, sum(self._weights.get(term, 0.0) * _share(words[term], self._lengths[name]) for term in terms))
            for name, words in self._words.items()
        ]

    def _by_pattern(self, query: str) -> list[tuple[str, float]]:
        """Count the matches of a regular expression, or of the text itself if it is none."""
        flags = 0 if self._options.get("case_sensitive") else re.IGNORECASE
        try:
            pattern = re.compile(query, flags)
        except re.error:
            pattern = re.compile(re.escape(query), flags)
        counts = ((name, float(len(pattern.findall(text)))) for name, text in self._texts.items())
        return [(name, count) for name, count in counts if count]


def _share(count: int, length: float) -> float:
    """Return how much a word counts in a document that has it `count` times and is `length` times the mean length."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * length))


def _weights(documents: Any) -> dict[str, float]:
    """Return the weight of each word: high if few documents have it, and a quarter of the mean if half of them do."""
    held = Counter(word for words in documents for word in words)
    total = len(documents)
    weights = {word: math.log(total - count + 0.5) - math.log(count + 0.5) for word, count in held.items()}
    least = EPSILON * sum(weights.values()) / max(len(weights), 1)
    return {word: weight if weight >= 0 else least for word, weight in weights.items()}
