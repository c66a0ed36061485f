"""`agentgym/search-v1`: an offline web with the tools of a browser: search, open, find, follow, answer."""

from __future__ import annotations

import asyncio
import hashlib
import json

from agentgym import Checkpoint, Environment, Message, SandboxError, Task, TaskError, ToolError, tool
from agentgym.text import counted

from .index import Library, Retriever, open_library
from .index.dense import Encoder
from .index.page_store import Page, folded
from .pages import found_lines, page_window, result_line, windows
from .reading import Reader

SYSTEM = "Answer from the pages of this web: search, open pages, follow [links]. Answer with the bare value."
MAX_QUERY_CHARS, MAX_RESULT_PAGES = 1_000, 20


class Search(Environment):
    """Questions about the pages of a corpus, as on the web. Not isolated: no code runs, pages are text.

    Task parameters: `corpus`, an asset of JSON lines or the path of a corpus. Optional: `seed`, given to the asset;
    `landmarks`, hashes of the titles of the pages on the way to the answer, for `progress`; `results`, the number of
    pages that a search shows; `retrieval`, false to disable `search` for this question (UR2 does so by difficulty).

    Args:
        retriever: `bm25`, `dense` or `hybrid`. `encoder`: the encoder of the dense part, see `index.dense.Encoder`.
        reader: summarizes pages for the agent, which then sees only the parts about the question; None shows the pages.
        results: number of pages that a search shows. `window_chars`: characters of a page shown at once.
        max_searches: the number of searches in an episode; None for no limit but its turns.
    """

    reward = "search"
    task_set = "search/wiki-v1"
    _here: str | None  # title of the open page
    _known: set[str]  # folded titles that a search or a page has shown
    _opened: set[str]  # landmarks of the pages opened
    _seen_texts: set[str]  # hashes of the texts that were shown
    _landmarks: frozenset[str]
    _may_search: bool
    _searches: int

    def __init__(
        self,
        *,
        retriever: str = "bm25",
        encoder: Encoder | None = None,
        reader: Reader | None = None,
        results: int = 5,
        window_chars: int = 2_000,
        max_searches: int | None = None,
    ) -> None:
        if results < 1 or window_chars < 100 or (max_searches is not None and max_searches < 0):
            raise ValueError(
                f"results = {results}, window_chars = {window_chars} and max_searches = {max_searches} are not valid: "
                "expected results >= 1, window_chars >= 100, and max_searches >= 0 or None."
            )
        self._kind, self._encoder, self._reader = retriever, encoder, reader
        self._results, self._window_chars, self._max_searches = results, window_chars, max_searches
        self._turn = asyncio.Lock()  # parallel calls of one turn run in their order
        self._library: Library | None = None
        self._retriever: Retriever | None = None
        self._question, self._per_page = "", results
        self._begin((), False)

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open the task's corpus. The first episode waits until the corpus is indexed. Raises: TaskError."""
        corpus, number = task.parameters.get("corpus"), task.parameters.get("seed")
        if not isinstance(corpus, str) or not corpus:
            raise TaskError(
                f"{task.id}: parameters['corpus'] must be an asset or the path of a corpus, not {corpus!r}."
            )
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise TaskError(f"{task.id}: parameters['seed'] must be a whole number, not {number!r}.")
        self._library = await asyncio.to_thread(open_library, corpus, seed=number)
        self._retriever = await asyncio.to_thread(self._library.retriever, self._kind, self._encoder)
        per_page = task.parameters.get("results", self._results)
        if isinstance(per_page, bool) or not isinstance(per_page, int) or per_page < 1:
            raise TaskError(f"{task.id}: parameters['results'] must be a whole number of at least 1, not {per_page!r}.")
        self._per_page = per_page
        self._question = task.opening()[-1].text
        self._begin(task.parameters.get("landmarks", ()), task.parameters.get("retrieval", True) is not False)
        return [Message("system", SYSTEM), *task.opening()]

    @tool
    async def search(self, query: str, page: int = 1) -> str:
        """Search the web.

        Args:
            query: words to search for.
            page: which page of results.
        """
        async with self._turn:
            return await self._search(query, page)

    @tool(timeout_s=120.0)
    async def open(self, page: str, part: int = 1) -> str:
        """Open a page that a search or a link has shown.

        Args:
            page: its title.
            part: of a long page.
        """
        async with self._turn:
            return await self._open(self._known_page(page), part)

    @tool
    async def find(self, text: str) -> str:
        """Find a text in the open page."""
        async with self._turn:
            page = self._open_page()
            if not text.strip():
                raise ToolError("The text to find is empty.")
            lines = found_lines(page, text, self._window_chars)
            self._seen_texts |= {_mark(f"{page.title}\n{line}") for line in lines}
            return "\n".join(lines) or f"[{page.title} does not hold that text]"

    @tool(timeout_s=120.0)
    async def follow(self, link: str) -> str:
        """Follow a [link] of the open page."""
        async with self._turn:
            page = self._open_page()
            links = {folded(target) for target in page.links}
            for name in _readings(link):
                if name in links:
                    return await self._open(self._page(name), 1)
            raise ToolError(f"{page.title} has no link {link[:80]!r}. Its links: {_listed(page.links)}.")

    @tool(final=True, inline=True)
    def answer(self, text: str, sources: list[str] = []) -> str:  # noqa: B006  only read
        """Give the answer.

        Args:
            text: the bare answer.
            sources: titles of the pages it is from.
        """
        return "Answered."

    async def state_key(self) -> str | None:
        """Return a hash of the corpus, the open page, and the texts seen so far, in any order."""
        spent = self._searches if self._max_searches is not None else 0
        state = [self._digest(), self._here, sorted(self._seen_texts), sorted(self._known), self._may_search, spent]
        return hashlib.sha256(json.dumps(state).encode()).hexdigest()[:32]

    async def potential(self) -> float | None:
        """Return the share of the landmarks whose page was opened."""
        if not self._landmarks:
            return None
        return len(self._landmarks & self._opened) / len(self._landmarks)

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint(
            {
                "here": self._here,
                "known": sorted(self._known),
                "opened": sorted(self._opened),
                "searches": self._searches,
                "shown": sorted(self._seen_texts),
            }
        )

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        data = checkpoint.data
        self._here, self._searches = data["here"], data["searches"]
        self._known, self._opened, self._seen_texts = set(data["known"]), set(data["opened"]), set(data["shown"])

    def _begin(self, landmarks: object, may_search: bool) -> None:
        self._landmarks = frozenset(map(str, landmarks)) if isinstance(landmarks, (list, tuple)) else frozenset[str]()
        self._may_search, self._searches = may_search, 0
        self._here = None
        self._known, self._opened, self._seen_texts = set(), set(), set()

    async def _search(self, query: str, page: int) -> str:
        _, retriever = self._ready()
        if not self._may_search:
            raise ToolError("There is no search for this question: answer it from what you know.")
        if not query.strip() or len(query) > MAX_QUERY_CHARS:
            raise ToolError(f"A query has 1 to {MAX_QUERY_CHARS} characters; yours has {len(query)}.")
        if not 1 <= page <= MAX_RESULT_PAGES:
            raise ToolError(f"There are pages 1 to {MAX_RESULT_PAGES} of results, no page {str(page)[:20]}.")
        if self._max_searches is not None and self._searches >= self._max_searches:
            raise ToolError(f"All {self._max_searches} searches of this question are used up. Answer now.")
        self._searches += 1
        before = self._per_page * (page - 1)
        hits = (await retriever.search(query, before + self._per_page))[before:]
        lines = [result_line(number, hit.page, query) for number, hit in enumerate(hits, start=before + 1)]
        self._known |= {folded(hit.page.title) for hit in hits}
        self._seen_texts |= {_mark(line.partition(". ")[2]) for line in lines}
        return "\n".join(lines) or "[nothing found]"

    def _known_page(self, title: str) -> Page:
        """Return the page with a title that was shown. Raises: ToolError for a title that was not."""
        self._ready()
        for name in _readings(title):
            if name in self._known:
                return self._page(name)
        raise ToolError(f"No search and no page has shown {title[:80]!r} yet. Search for it first.")

    def _page(self, title: str) -> Page:
        library, _ = self._ready()
        number = library.pages.number(title)
        if number is None:
            raise ToolError(f"The page {title[:80]!r} does not exist.")
        return library.pages[number]

    async def _open(self, page: Page, part: int) -> str:
        total = len(windows(page.text, self._window_chars))
        if not 1 <= part <= total:
            raise ToolError(f"{page.title} has {counted(total, 'part')}, no part {str(part)[:20]}.")
        if self._reader is None:
            text = page_window(page, part, self._window_chars)
        else:
            text = f"# {page.title}\n{await self._reader.read(page.title, page.text, self._question)}"
        self._here = page.title
        self._known |= {folded(page.title), *map(folded, page.links)}
        self._opened.add(landmark(page.title))
        self._seen_texts.add(_mark(text))
        return text

    def _open_page(self) -> Page:
        self._ready()
        if self._here is None:
            raise ToolError("No page is open. Open one first.")
        return self._page(self._here)

    def _ready(self) -> tuple[Library, Retriever]:
        if self._library is None or self._retriever is None:
            raise SandboxError("The search environment was used before reset. Call reset first.")
        return self._library, self._retriever

    def _digest(self) -> str:
        return self._library.digest if self._library else ""


def landmark(title: str) -> str:
    """Return a title as in a task's `landmarks`: a hash, so that a title can be recognised but not read."""
    return hashlib.sha256(folded(title).encode()).hexdigest()[:16]


def _readings(title: str) -> tuple[str, str]:
    """Return the titles that a text can mean: the text itself, or the text inside a link's brackets."""
    return folded(title), folded(title.strip().removeprefix("[").removesuffix("]"))


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _listed(titles: tuple[str, ...]) -> str:
    return ", ".join(f"[{title}]" for title in titles[:20]) + (", ..." if len(titles) > 20 else "") or "none"
