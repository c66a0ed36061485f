"""The page server: the proxy of every browser context, and the only thing that a context can reach.

Each context connects to a separate loopback address, which identifies the episode of a request. Every request of a page
comes here; a host that does not belong to the episode is refused. The sandbox has no other network.
"""

from __future__ import annotations

import http.server
import itertools
import socketserver
import threading
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from .cdp import ChromiumProcess
from .files import Downloads
from .page_request import PageRequest, PageResponse

_MAX_FORM = 1 << 20
Watcher = Callable[[str, bool], object]


class ServedSite(Protocol):
    """A site that serves the pages of an episode. Some sites also forward requests or open tunnels."""

    hosts: tuple[str, ...]
    address: str
    lock: Any

    def respond(self, request: PageRequest) -> PageResponse: ...


class PageServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves all episodes of a browser, with one thread for each connection."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, browser: ChromiumProcess) -> None:
        super().__init__(("0.0.0.0", 0), _Handler)
        self._sites: dict[str, ServedSite] = {}
        self._watchers: dict[str, Watcher] = {}
        self.downloads = Downloads()
        self._numbers = itertools.count(1)
        browser.listen(None, self._on_browser_event)
        browser.call("Target.setDiscoverTargets", {"discover": True})
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 60}, name="pages", daemon=True).start()

    def open(self, site: ServedSite) -> str:
        """Give a site an address. Returns: host and port of the proxy that leads only to this site."""
        number = next(self._numbers)
        site.address = f"127.{1 + (number >> 16) % 250}.{number >> 8 & 255}.{number & 255}"
        self._sites[site.address] = site
        return f"{site.address}:{self.server_address[1]}"

    def close(self, site: ServedSite) -> None:
        self._sites.pop(site.address, None)

    def site_at(self, address: str) -> ServedSite | None:
        return self._sites.get(address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: a page may close a connection early."""

    def watch(self, context: str, watcher: Watcher) -> None:
        """Call `watcher(target, gone)` on the reading thread when a page of a context is opened or closed."""
        self._watchers[context] = watcher

    def unwatch(self, context: str) -> None:
        self._watchers.pop(context, None)

    def _on_browser_event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Target.targetCreated":
            info = params["targetInfo"]
            watcher = self._watchers.get(info.get("browserContextId"))
            if watcher is not None and info.get("type") == "page":
                watcher(info["targetId"], False)
        elif method == "Target.targetDestroyed":
            for watcher in list(self._watchers.values()):
                watcher(params["targetId"], True)
        elif method.startswith("Browser.download"):
            self.downloads.on_event(method, params)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    timeout = 120
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        site, _ = self._site_and_address(self.path)
        if site is not None and hasattr(site, "forward"):
            self.do_other()
        else:
            self._serve("GET", [])

    def do_POST(self) -> None:
        site, _ = self._site_and_address(self.path)
        if site is not None and hasattr(site, "forward"):
            self.do_other()
            return
        length = self.headers.get("Content-Length", "0")
        size = int(length) if length.isdigit() else 0
        if size > _MAX_FORM:
            self.close_connection = True
            self._send(PageResponse("Too large.", status=413))
            return
        self._serve("POST", parse_qsl(self.rfile.read(size).decode("utf-8", "replace"), keep_blank_values=True))

    def do_other(self) -> None:
        site, parts = self._site_and_address(self.path)
        if site is None or not hasattr(site, "forward"):
            self._send(PageResponse("This cannot be done here.", "text/plain", 502 if site is None else 405))
            return
        site.forward(self, urlunsplit(("", "", parts.path or "/", parts.query, "")))

    do_HEAD = do_GET
    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_other

    def do_CONNECT(self) -> None:
        site, _ = self._site_and_address(f"http://{self.path}")
        if site is None or not hasattr(site, "tunnel"):
            self._send(PageResponse("This address cannot be reached.", "text/plain", 502))
            return
        site.tunnel(self)

    def _site_and_address(self, url: str) -> tuple[ServedSite | None, SplitResult]:
        """Return a request's site (None for a host outside the episode) and the parts of its address."""
        site = self.server.site_at(self.connection.getsockname()[0])
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            return None, urlsplit("")
        return (site if site is not None and host in site.hosts else None), parts

    def _serve(self, method: str, form: list[tuple[str, str]]) -> None:
        site, parts = self._site_and_address(self.path)
        host = parts.hostname or ""
        if site is None:
            self._send(PageResponse("This address cannot be reached.", "text/plain", 502))
            return
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        with site.lock:
            response = site.respond(PageRequest(method, host, parts.path or "/", query, dict(form)))
        self._send(response)

    def _send(self, response: PageResponse) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header("Content-Length", str(len(response.body)))
        if response.location:
            self.send_header("Location", response.location)
        if response.policy:
            self.send_header("Content-Security-Policy", response.policy)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, *arguments: object) -> None:
        """Write no log."""

    def version_string(self) -> str:
        return "pages"

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "Thu, 01 Jan 2026 00:00:00 GMT"
