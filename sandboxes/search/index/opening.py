"""Opens a corpus: its pages and rankings, built if they are not on disk yet, and shared by the whole process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from agentgym import SandboxUnavailable, TaskError, UnknownNameError, in_thread, load

from . import bm25_build, lsa, page_store
from .bm25 import Bm25
from .corpus_files import corpus_file, pages_of_file, pages_of_lines
from .dense import Dense, Encoder, write_vectors
from .folders import digest_of_bytes, digest_of_file, made_once, root
from .page_store import Page, PageStore
from .retrievers import Hit, Hybrid, Ranking, Retriever

LSA_DIMENSIONS = 128
KINDS = ("bm25", "dense", "hybrid")


class Library:
    """A corpus and its rankings. Read-only and thread-safe; a process has one per corpus.

    Attributes:
        digest: hash of the corpus; an equal hash means the same pages.
        pages: see PageStore.
    """

    def __init__(self, folder: Path, pages: Callable[[], Iterable[Page]]) -> None:
        self.digest = folder.name
        self._folder, self._rankings, self._lock = folder, dict[str, Ranking](), Lock()
        self.pages = PageStore(self._part(page_store.VERSION, lambda folder: page_store.write_pages(folder, pages())))

    def ranking(self, kind: str = "bm25", encoder: Encoder | None = None) -> Ranking:
        """Return a ranking of the pages. Its index is built at first use.

        Args:
            kind: `bm25`, `dense`, or `hybrid`: both, fused by rank.
            encoder: makes the dense vectors; by default one learned from the corpus (see Lsa).
        Raises: ValueError for another kind; MissingExtraError if the encoder's packages are not installed.
        """
        if kind not in KINDS:
            raise ValueError(f"There is no retriever of the kind {kind!r}. Kinds are: {', '.join(KINDS)}.")
        with self._lock:
            return self._ranking(kind, encoder)

    def retriever(self, kind: str = "bm25", encoder: Encoder | None = None) -> Retriever:
        """Return a retriever of pages by `ranking`. An encoder runs in a thread; BM25, which takes less time
        than starting a thread, does not.
        """
        return LocalRetriever(self.pages, self.ranking(kind, encoder), blocking=encoder is not None)

    def _ranking(self, kind: str, encoder: Encoder | None) -> Ranking:
        name = f"{kind} {encoder.name if encoder else ''}"
        if name in self._rankings:
            return self._rankings[name]
        ranking: Ranking
        if kind == "hybrid":
            ranking = Hybrid([self._ranking("bm25", None), self._ranking("dense", encoder)])
        elif kind == "bm25":
            ranking = Bm25(self._bm25())
        else:
            ranking = self._dense(encoder or self._lsa())
        self._rankings[name] = ranking
        return ranking

    def _dense(self, encoder: Encoder) -> Dense:
        def build(folder: Path) -> None:
            write_vectors(folder, self.pages, len(self.pages), encoder)

        return Dense(self._part(f"vectors-1-{encoder.name}", build), encoder)

    def _bm25(self) -> Path:
        return self._part(bm25_build.VERSION, lambda folder: bm25_build.write_bm25(folder, self.pages))

    def _lsa(self) -> Encoder:
        bm25 = self._bm25()
        folder = self._part(f"{lsa.VERSION}-{LSA_DIMENSIONS}", lambda new: lsa.write_lsa(new, bm25, LSA_DIMENSIONS))
        return lsa.Lsa(folder, bm25)

    def _part(self, name: str, build: Callable[[Path], None]) -> Path:
        try:
            return made_once(self._folder / name, build)
        except OSError as error:
            raise SandboxUnavailable(
                f"The corpus cannot be indexed in {root()} ({error}). Free some space there, or set AGENTGYM_CACHE to "
                "another folder."
            ) from error


class LocalRetriever:
    """Retrieves pages from indexes that this process has memory-mapped."""

    def __init__(self, pages: PageStore, ranking: Ranking, *, blocking: bool) -> None:
        self._pages, self._ranking, self._blocking = pages, ranking, blocking

    async def search(self, query: str, k: int) -> list[Hit]:
        """See Retriever."""
        rank = self._ranking.rank
        ranked = await in_thread(rank, query, k) if self._blocking else rank(query, k)
        return [Hit(self._pages[number], score) for number, score in ranked]


def open_library(corpus: str, *, seed: int | None = None) -> Library:
    """Return the library of a corpus; the first caller waits until it is indexed.

    Args:
        corpus: the name of an asset that returns pages as JSON lines, or the path of a file or BEIR folder.
        seed: passed to the asset if it accepts a seed.
    Raises: TaskError if there is no such corpus or it cannot be read; SandboxUnavailable if the disk has no room for
        it.
    """
    path = Path(corpus)
    if not path.exists():
        return _of_asset(corpus, seed)
    file = corpus_file(path)
    return _of_file(str(file.resolve()), digest_of_file(file, page_store.VERSION))


@lru_cache(maxsize=64)
def _of_asset(name: str, seed: int | None) -> Library:
    try:
        asset: Any = load("assets", name)
    except UnknownNameError as error:
        raise TaskError(f"The corpus {name!r} is neither a file, a folder nor an asset. {error}") from error
    seeded = seed is not None and "seed" in inspect.signature(asset).parameters
    content: bytes = asset(seed=seed) if seeded else asset()
    folder = root() / digest_of_bytes(content, page_store.VERSION)
    return Library(folder, lambda: pages_of_lines(content.splitlines(), f"the asset {name!r}"))


@lru_cache(maxsize=64)
def _of_file(path: str, digest: str) -> Library:
    return Library(root() / digest, lambda: pages_of_file(Path(path)))
