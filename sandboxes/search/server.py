"""Serves a corpus over HTTP on the loopback interface: pages with links for browsers, and `POST /retrieve` for
Search-R1's clients.

python -m agentgym.sandboxes.search.server CORPUS --port 8000 --retriever hybrid
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import h11

from .index import Library, Retriever, open_library
from .index.opening import KINDS
from .web_pages import page_html, results_html, start_html

MAX_BODY_BYTES, MAX_QUERIES, MAX_TOPK, MAX_QUERY_CHARS = 1 << 20, 512, 100, 10_000
REQUEST_S, MAX_CONNECTIONS = 60.0, 512
RESULTS = 10


class BadRequest(Exception):
    """A request that cannot be served; the client gets `status` and the message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class SearchServer:
    """Serves one corpus; any number of clients and episodes share its memory-mapped index.

    `async with SearchServer(library) as server:` listens at `server.url` until the block ends.

    Args:
        library: see open_library. `retriever`: answers searches; BM25 by default.
        host: 127.0.0.1, or another address to serve other machines; clients are not authenticated. `port`: 0 for a free
            one.
    """

    def __init__(
        self, library: Library, retriever: Retriever | None = None, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._library, self._retriever = library, retriever or library.retriever()
        self._host, self._port = host, port
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        """Return the server's address, without a trailing slash."""
        return f"http://{self._host}:{self._port}"

    async def __aenter__(self) -> SearchServer:
        self._server = await asyncio.start_server(self._serve, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if len(self._serving) <= MAX_CONNECTIONS:
                async with asyncio.timeout(None) as limit:
                    await self._converse(reader, writer, limit)
        except (OSError, TimeoutError, asyncio.CancelledError, h11.RemoteProtocolError):
            pass  # the client left, is slow, or does not speak HTTP: only its own connection ends
        finally:
            self._serving.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: asyncio.Timeout
    ) -> None:
        """Answer the requests of one connection, one after another."""
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=32_768)
        while True:
            limit.reschedule(asyncio.get_running_loop().time() + REQUEST_S)
            request, body = await _request(connection, reader, writer)
            if request is None:
                return
            status, kind, content = await self._answer(request, body)
            headers = [
                ("content-type", kind),
                ("content-length", str(len(content))),
                ("x-content-type-options", "nosniff"),
            ]
            writer.write(connection.send(h11.Response(status_code=status, headers=headers)) or b"")
            if request.method != b"HEAD":
                writer.write(connection.send(h11.Data(data=content)) or b"")
            writer.write(connection.send(h11.EndOfMessage()) or b"")
            await writer.drain()
            if connection.our_state is h11.MUST_CLOSE:
                return
            connection.start_next_cycle()

    async def _answer(self, request: h11.Request, body: bytes | None) -> tuple[int, str, bytes]:
        """Return an answer's status, content type and content."""
        try:
            if body is None:
                raise BadRequest(413, f"The body has more than {MAX_BODY_BYTES} bytes, which is the limit.")
            parts = urlsplit(request.target.decode("ascii", "replace"))
            if parts.path == "/retrieve":
                if request.method != b"POST":
                    raise BadRequest(405, "Send requests to /retrieve by POST.")
                return 200, "application/json", json.dumps(await self._retrieve(body)).encode()
            if request.method not in (b"GET", b"HEAD"):
                raise BadRequest(405, "Read pages by GET.")
            return 200, "text/html; charset=utf-8", (await self._page(parts.path, parse_qs(parts.query))).encode()
        except BadRequest as error:
            return error.status, "text/plain; charset=utf-8", f"{error}\n".encode()

    async def _page(self, path: str, query: Mapping[str, list[str]]) -> str:
        if path == "/":
            return start_html(len(self._library.pages))
        if path == "/search":
            text = query.get("q", [""])[0][:MAX_QUERY_CHARS]
            hits = await self._retriever.search(text, RESULTS) if text.strip() else []
            return results_html(text, [hit.page for hit in hits])
        if path.startswith("/pages/"):
            number = self._library.pages.number(unquote(path.removeprefix("/pages/")))
            if number is not None:
                return page_html(self._library.pages[number])
        raise BadRequest(404, "There is no such page. Search at /search?q=...")

    async def _retrieve(self, body: bytes) -> dict[str, Any]:
        """Answer a request in Search-R1's protocol: `queries`, `topk` (default 3), `return_scores`."""
        try:
            request = json.loads(body)
            queries, topk = request["queries"], request.get("topk") or 3
            scores = bool(request.get("return_scores", False))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadRequest(
                422, 'The body must have the form {"queries": [...], "topk": 3, "return_scores": true}.'
            ) from error
        if not (isinstance(queries, list) and all(isinstance(item, str) for item in queries)):
            raise BadRequest(422, "queries must be a list of texts.")
        if isinstance(topk, bool) or not isinstance(topk, int) or not 1 <= topk <= MAX_TOPK:
            raise BadRequest(422, f"topk must be a whole number from 1 to {MAX_TOPK}, not {str(topk)[:20]}.")
        if len(queries) > MAX_QUERIES or any(len(item) > MAX_QUERY_CHARS for item in queries):
            raise BadRequest(422, f"Send at most {MAX_QUERIES} queries, of at most {MAX_QUERY_CHARS} characters each.")
        result = []
        for query in queries:
            rows = []
            for hit in await self._retriever.search(query, topk):
                document = {"id": hit.page.id, "contents": f'"{hit.page.title}"\n{hit.page.text}'}
                rows.append({"document": document, "score": hit.score} if scores else document)
            result.append(rows)
            await asyncio.sleep(0)  # give other connections a turn between two searches
        return {"result": result}


async def _request(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[h11.Request | None, bytes | None]:
    """Return the next request and its body; no request at the end, no body if it is too large."""
    request: h11.Request | None = None
    body, size = bytearray(), 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            connection.receive_data(await reader.read(65_536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            size += len(event.data)
            if size <= MAX_BODY_BYTES:
                body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return request, bytes(body) if size <= MAX_BODY_BYTES else None
        else:  # the connection was closed, or is paused
            return None, None


async def serve(corpus: str, *, retriever: str = "bm25", host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve a corpus until cancelled. Arguments as for open_library and SearchServer."""
    library = open_library(corpus)
    async with SearchServer(library, library.retriever(retriever), host=host, port=port) as server:
        print(f"{len(library.pages)} pages at {server.url}, retriever at {server.url}/retrieve", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run the command line of this module."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("corpus", help="an asset of pages, a corpus file or a BEIR folder")
    options.add_argument("--retriever", choices=KINDS, default="bm25")
    options.add_argument("--host", default="127.0.0.1", help="which address to listen at")
    options.add_argument("--port", type=int, default=8000, help="0 for a free one")
    given = options.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(given.corpus, retriever=given.retriever, host=given.host, port=given.port))


if __name__ == "__main__":
    main()
