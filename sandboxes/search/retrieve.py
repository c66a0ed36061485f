"""`agentgym/search-retrieve-v1`: one retriever and an answer, as in Search-R1: passages between <information> tags."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re

from agentgym import Checkpoint, Environment, Message, SandboxError, Task, TaskError, ToolError, tool

from .environment import MAX_QUERY_CHARS, landmark
from .index import Retriever, open_library
from .index.dense import Encoder
from .index.page_store import Page
from .index.remote import RemoteRetriever

SYSTEM = (
    "Find the answer to the question. What you look for is put into <search>query</search>; passages come back between "
    "<information> and </information>. Search as often as you need, then give the bare answer in <answer>...</answer>."
)
PASSAGE_CHARS = 2_000
_TAG = re.compile(r"</?(information|search|answer|think)>", re.IGNORECASE)


class SearchRetrieve(Environment):
    """A question, and a retriever that returns whole passages. Not isolated: no code runs, passages are text.

    Meant for the call format `tags`. Task parameters: `corpus`, `seed` and `landmarks` as in Search; without a corpus,
    the retriever must be a server's address.

    Args:
        retriever: `bm25`, `dense`, `hybrid`, or the address of a server that speaks Search-R1's protocol.
        encoder: the encoder of the dense part. `topk`: number of passages that a search returns; 3 in Search-R1.
    Source of the format: Jin et al. 2025, "Search-R1", arXiv:2503.09516.
    """

    reward = "search"
    task_set = "search/wiki-retrieve-v1"

    def __init__(self, *, retriever: str = "bm25", encoder: Encoder | None = None, topk: int = 3) -> None:
        if topk < 1:
            raise ValueError(f"topk = {topk} is not valid: SearchRetrieve needs at least 1.")
        self._kind, self._encoder, self._topk = retriever, encoder, topk
        self._turn = asyncio.Lock()
        self._retriever: Retriever | None = None
        self._remote = RemoteRetriever(retriever) if retriever.startswith(("http://", "https://")) else None
        self._corpus = ""
        self._landmarks: frozenset[str] = frozenset()
        self._read: set[str] = set()  # landmarks of the pages that were shown
        self._seen_passages: set[str] = set()  # hashes of the passages that were shown

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open the task's corpus, unless a server holds it. Raises: TaskError."""
        if self._remote is not None:
            self._retriever, self._corpus = self._remote, self._remote.url
        else:
            corpus = task.parameters.get("corpus")
            if not isinstance(corpus, str) or not corpus:
                raise TaskError(
                    f"{task.id}: parameters['corpus'] must be an asset or the path of a corpus, not {corpus!r}."
                )
            library = await asyncio.to_thread(open_library, corpus, seed=task.parameters.get("seed"))
            self._retriever = await asyncio.to_thread(library.retriever, self._kind, self._encoder)
            self._corpus = library.digest
        self._landmarks = frozenset(map(str, task.parameters.get("landmarks", ())))
        self._read, self._seen_passages = set(), set()
        return [Message("system", SYSTEM), *task.opening()]

    @tool
    async def search(self, query: str) -> str:
        """Search the corpus; gives passages."""
        if self._retriever is None:
            raise SandboxError("The search environment was used before reset. Call reset first.")
        if not query.strip() or len(query) > MAX_QUERY_CHARS:
            raise ToolError(f"A query has 1 to {MAX_QUERY_CHARS} characters; yours has {len(query)}.")
        async with self._turn:
            hits = await self._retriever.search(query, self._topk)
        passages = [_passage(hit.page) for hit in hits]
        self._read |= {landmark(hit.page.title) for hit in hits}
        self._seen_passages |= {hashlib.sha256(passage.encode()).hexdigest()[:16] for passage in passages}
        lines = [f"Doc {number}{passage}" for number, passage in enumerate(passages, start=1)]
        return "<information>" + ("\n".join(lines) or "[nothing found]") + "</information>"

    @tool(final=True, inline=True)
    def answer(self, text: str) -> str:
        """Give the bare answer."""
        return "Answered."

    async def state_key(self) -> str | None:
        """Return a hash of the corpus and of every passage seen so far, in any order."""
        state = [self._corpus, sorted(self._seen_passages)]
        return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:32]

    async def potential(self) -> float | None:
        """Return the share of the landmarks whose page was shown."""
        return len(self._landmarks & self._read) / len(self._landmarks) if self._landmarks else None

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"read": sorted(self._read), "shown": sorted(self._seen_passages)})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        self._read, self._seen_passages = set(checkpoint.data["read"]), set(checkpoint.data["shown"])

    async def close(self) -> None:
        if self._remote is not None:
            await self._remote.close()
        await super().close()


def _passage(page: Page) -> str:
    """Return a page on one line, after its title, without the tags that the conversation itself uses.

    A removed tag is replaced by a space, so that the text around it cannot join into another tag.
    """
    title, text = (" ".join(_TAG.sub(" ", part).split()) for part in (page.title, page.text))
    return f'(Title: "{title}") {text[:PASSAGE_CHARS]}'
