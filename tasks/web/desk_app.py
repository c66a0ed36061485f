"""A help desk, the application of `web/desk-v1`: tickets by name, each with a status. It runs in the browser's sandbox.

`desk.json` contains the tickets: `{"tickets": {"loud fan": {"status": "new"}}}`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

DESK = Path("desk.json")
STATUSES = ("urgent", "waiting", "closed")
REOPEN = "reopen"


class HelpDesk(BaseHTTPRequestHandler):
    """Serves the list of tickets at `/`, and the second ticket at `/tickets/2`, with a button for each action."""

    def do_GET(self) -> None:
        """Send a page."""
        tickets = _tickets()
        if ticket := self._ticket(tickets):
            status = ticket["status"]
            buttons = [f"<button name=press value={press}>{press}</button>" for press in presses(status)]
            self._answer(200, f"<p>{status}</p><form method=post>{''.join(buttons)}</form>")
        elif self.path == "/":
            links = [f'<p><a href="/tickets/{n}">{escape(name)}</a></p>' for n, name in enumerate(tickets, 1)]
            self._answer(200, "".join(links))
        else:
            self._answer(404, "<p>There is no such ticket.</p>")

    def do_POST(self) -> None:
        """Do a button's action, and send the ticket's page again."""
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        tickets, press = _tickets(), form.get("press", [""])[0]
        ticket = self._ticket(tickets)
        if ticket is None or press not in presses(ticket["status"]):
            self._answer(400, "<p>That cannot be done.</p>")
            return
        ticket["status"] = "new" if press == REOPEN else press
        DESK.write_text(json.dumps({"tickets": tickets}), encoding="utf-8")
        self._answer(303, "", {"Location": self.path})

    def _ticket(self, tickets: Mapping[str, dict[str, str]]) -> dict[str, str] | None:
        """Return the ticket that the address names."""
        return {f"/tickets/{n}": ticket for n, ticket in enumerate(tickets.values(), 1)}.get(self.path)

    def _answer(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> None:
        page = f"<!DOCTYPE html><title>Help desk</title>{body}".encode()
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", "Content-Length": str(len(page)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)


def presses(status: str) -> tuple[str, ...]:
    """Return the buttons of a ticket: a closed ticket can only be reopened."""
    return (REOPEN,) if status == "closed" else STATUSES


def _tickets() -> dict[str, dict[str, str]]:
    tickets: dict[str, dict[str, str]] = json.loads(DESK.read_text(encoding="utf-8"))["tickets"]
    return tickets


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), HelpDesk).serve_forever()
