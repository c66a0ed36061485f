"""Pages of the real web, from hosts on an allow list."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import ClassVar
from urllib.parse import urljoin, urlsplit

import httpx

from agentgym import Environment, Message, SandboxSpec, Task, ToolError, in_thread, tool
from agentgym.sandbox import Proxy
from agentgym.text import counted

from .html_text import WebPage, read_html
from .index.page_store import Page
from .index.remote import RemoteRetriever
from .pages import found_lines, result_line, windows

SYSTEM = "Answer from the web: open pages by address, follow [links], find text in them. Answer with the bare value."
MAX_BYTES, MAX_URL_CHARS, FETCH_S, MAX_REDIRECTS = 2 << 20, 2_000, 20.0, 5
_READABLE = ("text/html", "application/xhtml+xml", "text/plain")


class LiveSearch(Environment):
    """Pages of the real web, from an allow list. Not isolated: pages may say anything, and servers see the requests.

    Not registered, because you decide which hosts may be reached: define a subclass with `allow`, and register it.

    Every request of the agent goes through the sandboxes' allow-list proxy, which resolves each name itself and refuses
    private addresses; redirects are followed only to hosts on the list. No code on a page is run. Because the
    web changes, there is no state key, no checkpoint, and no replay.

    Args:
        allow: names and addresses as in SandboxSpec.network, for example ("en.wikipedia.org", "*.example.org");
            by default the class attribute.
        retriever: address of a server that speaks Search-R1's protocol, for `search`; None disables `search`.
        window_chars: characters of a page shown at once. `proxy`: creates the networks.
    """

    reward = "search"
    allow: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        allow: Sequence[str] | None = None,
        retriever: str | None = None,
        results: int = 5,
        window_chars: int = 2_000,
        proxy: Proxy | None = None,
    ) -> None:
        self._allow = self.allow if allow is None else tuple(allow)
        SandboxSpec(network=self._allow)  # checks the list
        self._remote = RemoteRetriever(retriever) if retriever else None
        self._results, self._window_chars = results, window_chars
        self._proxy, self._own_proxy = proxy or Proxy(), proxy is None
        self._close_network: Callable[[], None] | None = None
        self._client: httpx.AsyncClient | None = None
        self._turn = asyncio.Lock()
        self._here: WebPage | None = None

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task; nothing is fetched before the first call."""
        self._here = None
        return [Message("system", SYSTEM), *task.opening()]

    @tool(timeout_s=60.0)
    async def search(self, query: str) -> str:
        """Search for pages."""
        if self._remote is None:
            raise ToolError("There is no search here. Open a page by its address.")
        if not query.strip():
            raise ToolError("The query is empty.")
        hits = await self._remote.search(query[:1_000], self._results)
        return "\n".join(result_line(n, hit.page, query) for n, hit in enumerate(hits, 1)) or "[nothing found]"

    @tool(timeout_s=60.0)
    async def open(self, url: str, part: int = 1) -> str:
        """Open a page.

        Args:
            url: its address, https://...
            part: of a long page.
        """
        async with self._turn:
            if self._here is None or url.strip() != self._here.url:
                self._here = await self._fetch(url.strip())
            return self._page_window(part)

    @tool(timeout_s=60.0)
    async def follow(self, link: str) -> str:
        """Follow a [link] of the open page."""
        async with self._turn:
            page = self._open_page()
            target = page.links.get(" ".join(link.strip("[] ").split()).casefold())
            if target is None:
                raise ToolError(f"The open page has no link {link[:80]!r}. Write it as it stands between brackets.")
            self._here = await self._fetch(urljoin(page.url, target))
            return self._page_window(1)

    @tool
    async def find(self, text: str) -> str:
        """Find a text in the open page."""
        async with self._turn:
            page = self._open_page()
            if not text.strip():
                raise ToolError("The text to find is empty.")
            lines = found_lines(Page(page.url, page.title, page.text), text, self._window_chars)
            return "\n".join(lines) or "[the page does not hold that text]"

    @tool(final=True, inline=True)
    def answer(self, text: str, sources: list[str] = []) -> str:  # noqa: B006  only read
        """Give the answer.

        Args:
            text: the bare answer.
            sources: addresses of the pages it is from.
        """
        return "Answered."

    async def close(self) -> None:
        client, close_network, self._client, self._close_network = self._client, self._close_network, None, None
        if client is not None:
            await client.aclose()
        if close_network is not None:
            await asyncio.to_thread(close_network)
            if self._own_proxy:
                await asyncio.to_thread(self._proxy.close)
        if self._remote is not None:
            await self._remote.close()
        await super().close()

    async def _fetch(self, url: str) -> WebPage:
        """Fetch a page. Raises: ToolError with the reason: that a host fails is part of the environment."""
        if not self._allow:
            raise ToolError("No place of the web may be reached here.")
        try:
            parts = urlsplit(url[:MAX_URL_CHARS])
        except ValueError:  # the address has a bracket that is never closed
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ToolError(f"{url[:80]!r} is no address of a page, such as https://example.org/page.")
        try:
            async with asyncio.timeout(FETCH_S):
                return await self._get(url[:MAX_URL_CHARS])
        except TimeoutError as error:
            raise ToolError(f"{parts.hostname} did not answer within {FETCH_S:g} s.") from error
        except httpx.ProxyError as error:
            raise ToolError(f"{parts.hostname} may not be reached: {str(error)[:600]}") from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, ValueError) as error:
            raise ToolError(f"{url[:80]!r} cannot be read: {str(error)[:200] or type(error).__name__}.") from error

    async def _get(self, url: str) -> WebPage:
        async with self._opened().stream("GET", url) as answer:
            kind = answer.headers.get("content-type", "text/html").partition(";")[0].strip().lower()
            if answer.status_code != 200:
                raise ToolError(f"{url[:80]!r} answers with status {answer.status_code} {answer.reason_phrase[:200]}.")
            if kind not in _READABLE:
                raise ToolError(f"{url[:80]!r} is of the type {kind[:60]!r}, no page that can be read here.")
            content = bytearray()
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > MAX_BYTES:
                    del content[MAX_BYTES:]
                    break
            text = bytes(content).decode(answer.charset_encoding or "utf-8", "replace")
            if kind == "text/plain":
                return WebPage(str(answer.url), url, text, {})
            return await in_thread(read_html, str(answer.url), text)  # a long page takes up to a second

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            listener = socket.create_server(("127.0.0.1", 0))
            address = listener.getsockname()
            self._close_network = self._proxy.serve(listener, self._allow).close
            self._client = httpx.AsyncClient(
                proxy=f"http://{address[0]}:{address[1]}",
                trust_env=False,  # the host's own proxy settings would bypass the sandbox's proxy
                follow_redirects=True,
                max_redirects=MAX_REDIRECTS,
                timeout=FETCH_S,
                headers={"user-agent": "agentgym", "accept": ", ".join(_READABLE)},
            )
        return self._client

    def _page_window(self, part: int) -> str:
        page = self._open_page()
        parts = windows(page.text, self._window_chars)
        if not 1 <= part <= len(parts):
            raise ToolError(f"The page has {counted(len(parts), 'part')}, no part {str(part)[:20]}.")
        number = f" (part {part} of {len(parts)})" if len(parts) > 1 else ""
        return f"# {page.title}{number}\n{page.url}\n{parts[part - 1]}"

    def _open_page(self) -> WebPage:
        if self._here is None:
            raise ToolError("No page is open. Open one first.")
        return self._here
