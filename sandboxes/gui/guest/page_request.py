"""A request of a page to the page server, and a site's response to it."""

from __future__ import annotations

SAFE = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; form-action 'self'; base-uri 'none'"
"""The content security policy of the bundled applications: no script runs, not even one in a message or post."""


class PageRequest:
    """One request of a page."""

    def __init__(self, method: str, host: str, path: str, query: dict[str, str], form: dict[str, str]) -> None:
        self.method, self.host, self.path, self.query, self.form = method, host, path, query, form


class PageResponse:
    """A site's response. `policy` is the content security policy, empty for none."""

    def __init__(
        self,
        body: str | bytes,
        kind: str = "text/html; charset=utf-8",
        status: int = 200,
        location: str = "",
        policy: str = "",
    ) -> None:
        self.body = body if isinstance(body, bytes) else body.encode()
        self.kind, self.status, self.location, self.policy = kind, status, location, policy
