"""A real HTTP server on a free local port that answers, or misbehaves, as a test's list of answers says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What to send: a status, a body (JSON unless bytes), headers; `after_s` late, or once `after` is set.

    `cut` ends it half-way.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    cut: bool = False
    after: threading.Event | None = None


class ModelServer:
    """Gives its answers one after the other, the last one for ever, and remembers the requests."""

    def __init__(self, *answers: Answer | Any) -> None:
        self.answers = [answer if isinstance(answer, Answer) else Answer(answer) for answer in answers]
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        self.url = ""
        self._lock = threading.Lock()

    def next(self, path: str, body: Any, headers: dict[str, str]) -> Answer:
        with self._lock:
            self.requests.append((path, body, headers))
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def bodies(self) -> list[Any]:
        return [body for _, body, _ in self.requests]


@contextmanager
def serving(*answers: Answer | Any) -> Iterator[ModelServer]:
    """Serve until the block ends."""
    model = ModelServer(*answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            answer = model.next(
                self.path, json.loads(content) if content else None, {k.lower(): v for k, v in self.headers.items()}
            )
            time.sleep(answer.after_s)
            if answer.after is not None:
                answer.after.wait(60)
            data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data) + 10 * answer.cut))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                pass  # the client gave up, as some tests want
            if answer.cut:
                self.close_connection = True

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
