"""Runs inside the sandbox: sends JSON-RPC messages to an MCP server, over its standard streams or over HTTP.

Standard library only. A server is not trusted: it may end, be silent, or never stop writing.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import selectors
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

MAX_MESSAGE_BYTES = 8 * 2**20
MAX_MESSAGES = 10_000
"""How many messages a server may send before it answers a request."""
MAX_LAST_WORDS = 2_000
_PIECE = 65_536
_RETRY_S, _LEAST_RETRY_S = 0.5, 0.05
"""How long to wait before a stream is resumed, unless the server says; and the least that it may say."""
_HEADER_SAFE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")

Message = Mapping[str, Any]


class ServerFailed(Exception):
    """The server can no longer be used: it ended, cannot be reached, or broke a limit."""


class ServerLate(Exception):
    """The server did not answer in time. It can still be used."""


class StandardStreams:
    """A server that this process starts: one message a line, on its standard input and output.

    Args:
        command: the program and its arguments. `environment`: variables added to those of this process.
    Raises: ServerFailed if the program cannot be started.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **environment}, bufsize=0
            )
        except OSError as error:
            raise ServerFailed(f"{command[0]!r} cannot be started: {error.strerror}.") from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin, self._stdout, self._stderr = (
            stream.fileno() for stream in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        self._ready = selectors.DefaultSelector()
        for stream in (self._stdout, self._stderr):
            self._ready.register(stream, selectors.EVENT_READ)
        for stream in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(stream, False)
        self._outgoing, self._incoming, self._last_words = bytearray(), bytearray(), bytearray()

    def send(self, message: Message, deadline: float) -> None:
        """Send a notification, or a reply to a request of the server's."""
        self._outgoing += _encoded(message) + b"\n"

    def ask(self, message: Message, deadline: float) -> Iterator[Message]:
        """Send a request, and yield the server's messages from then on. Raises: ServerFailed, ServerLate."""
        self.send(message, deadline)
        for _ in range(MAX_MESSAGES):
            line = self._line(deadline)
            with contextlib.suppress(ValueError, RecursionError):  # a line that is not a message is meant for people
                received = json.loads(line)
                if isinstance(received, dict):
                    yield received
        raise ServerFailed(f"The server sent {MAX_MESSAGES} lines, but none of them was the answer.")

    def _line(self, deadline: float) -> bytes:
        while (end := self._incoming.find(b"\n")) < 0:
            if len(self._incoming) > MAX_MESSAGE_BYTES:
                raise ServerFailed(f"The server sent a line of more than {MAX_MESSAGE_BYTES} bytes.")
            self._move(deadline)
        line = bytes(self._incoming[:end])
        del self._incoming[: end + 1]
        return line

    def _move(self, deadline: float) -> None:
        """Wait until bytes can be read or written, and do so. Raises: ServerFailed, ServerLate."""
        has_stdin = self._stdin in self._ready.get_map()
        if bool(self._outgoing) != has_stdin:
            if has_stdin:
                self._ready.unregister(self._stdin)
            else:
                self._ready.register(self._stdin, selectors.EVENT_WRITE)
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not (events := self._ready.select(left_s)):
            raise ServerLate
        for key, _ in events:
            if key.fd == self._stdin:
                try:
                    del self._outgoing[: os.write(self._stdin, self._outgoing[:_PIECE])]
                except OSError:
                    self._outgoing.clear()  # the server has closed its input; its output will show why it ended
                continue
            piece = os.read(key.fd, _PIECE)
            if key.fd == self._stderr:
                self._last_words = (self._last_words + piece)[-MAX_LAST_WORDS:]
                if not piece:
                    self._ready.unregister(self._stderr)
            elif piece:
                self._incoming += piece
            else:
                raise ServerFailed(self._how_it_ended())

    def _how_it_ended(self) -> str:
        try:
            how = f"ended with exit code {self._process.wait(1)}"
        except subprocess.TimeoutExpired:
            how = "closed its output"
        with contextlib.suppress(OSError):
            self._last_words += os.read(self._stderr, _PIECE)
        words = self._last_words[-MAX_LAST_WORDS:].decode("utf-8", "replace").strip()
        return f"The server {how}." + (f" It last wrote: {words}" if words else "")


class StreamableHttp:
    """A server at a URL: each message is a separate POST, whose reply holds messages of the server.

    Args:
        url: the URL of its endpoint. `headers`: headers of every request, such as a token.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url, self._headers = url, dict(headers)
        self._open = urllib.request.build_opener(_NoRedirect).open  # uses the proxy that the environment variables name
        self.version = ""
        self.mirrored: dict[str, str] = {}
        self._session: str | None = None

    def send(self, message: Message, deadline: float) -> None:
        """Send a notification, or a reply to a request of the server's. Raises: ServerFailed, ServerLate."""
        for _ in self._post(message, deadline):
            pass

    def ask(self, message: Message, deadline: float) -> Iterator[Message]:
        """Send a request, and yield the messages in the server's reply. Raises: ServerFailed, ServerLate."""
        count = 0
        for text in self._post(message, deadline, resumes=True):
            try:
                received = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ServerFailed(f"The server sent data that is not JSON: {text[:200]!r}.") from error
            for entry in received if isinstance(received, list) else [received]:
                if (count := count + 1) > MAX_MESSAGES:
                    raise ServerFailed(f"The server sent {MAX_MESSAGES} messages, but none of them was the answer.")
                if isinstance(entry, dict):
                    yield entry
        raise ServerFailed("The server ended its reply before the answer.")

    def _post(self, message: Message, deadline: float, *, resumes: bool = False) -> Iterator[str]:
        """Send a message, and yield what comes back. `resumes`: go on where a stream of events ended, if it has ids."""
        headers = {**self._headers, "Accept": "application/json, text/event-stream"}
        if self.version:
            headers["MCP-Protocol-Version"] = self.version
        if self._session is not None:
            headers["Mcp-Session-Id"] = self._session
        headers |= {name: header_value(value) for name, value in self.mirrored.items()}
        posted = headers | {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, _encoded(message), posted, method="POST")
        events = _EventStream()
        try:
            while True:
                with self._open(request, timeout=max(0.1, deadline - time.monotonic())) as reply:
                    if (session := reply.headers.get("Mcp-Session-Id")) is not None:
                        self._session = headers["Mcp-Session-Id"] = session
                    if reply.headers.get_content_type() == "text/event-stream":
                        yield from events.read(reply, deadline)
                    elif body := b"".join(_pieces(reply, deadline)):
                        yield body.decode("utf-8", "replace")
                if not (resumes and events.last_id):
                    return
                if time.monotonic() + events.retry_s > deadline:
                    raise ServerLate
                time.sleep(events.retry_s)
                resumed = headers | {"Accept": "text/event-stream", "Last-Event-ID": events.last_id}
                request = urllib.request.Request(self._url, None, resumed)
        except urllib.error.HTTPError as error:
            body = error.read(_PIECE)
            if error.headers.get_content_type() == "application/json" and b'"jsonrpc"' in body:
                yield body.decode("utf-8", "replace")
                return
            answer = body[:300].decode("utf-8", "replace").strip()
            raise ServerFailed(f"{self._url} answers {error.code} {error.reason}. {answer}".rstrip()) from error
        except TimeoutError as error:
            raise ServerLate from error
        except (OSError, http.client.HTTPException) as error:  # includes urllib.error.URLError
            if isinstance(reason := getattr(error, "reason", error), TimeoutError):
                raise ServerLate from error
            raise ServerFailed(f"{self._url} cannot be reached: {reason}.") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treat a redirect as an error: the user chose the address, and headers may hold a token."""

    def redirect_request(self, *args: Any) -> None:
        return None


def header_value(text: str) -> str:
    """Return a text as the value of a header, in base64 if plain text would not survive."""
    if _HEADER_SAFE.fullmatch(text) and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def _encoded(message: Message) -> bytes:
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode()


def _pieces(reply: Any, deadline: float) -> Iterator[bytes]:
    """Yield the body as it arrives. Raises: ServerFailed if it is too long, ServerLate."""
    received = 0
    while piece := reply.read1(_PIECE):
        if (received := received + len(piece)) > MAX_MESSAGE_BYTES:
            raise ServerFailed(f"The server sent a reply of more than {MAX_MESSAGE_BYTES} bytes.")
        yield piece
        if time.monotonic() > deadline:
            raise ServerLate


class _EventStream:
    """Reads server-sent events.

    Attributes:
        last_id: the id of the last event, after which the server can go on in another reply; empty without ids.
        retry_s: how long the server wants its client to wait before that.
    """

    def __init__(self) -> None:
        self.last_id, self.retry_s = "", _RETRY_S

    def read(self, reply: Any, deadline: float) -> Iterator[str]:
        """Yield the data of the events of one reply that have any. A reply that breaks off only ends, if it has ids."""
        buffer, data = bytearray(), []
        pieces = _pieces(reply, deadline)
        while True:
            try:
                piece = next(pieces, b"")
            except (ConnectionError, http.client.HTTPException):
                if not self.last_id:
                    raise
                return
            if not piece:
                return
            buffer += piece
            *lines, rest = buffer.replace(b"\r\n", b"\n").split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                name, _, value = line.decode("utf-8", "replace").partition(":")
                value = value.removeprefix(" ")
                if name == "data":
                    data.append(value)
                elif name == "id":
                    self.last_id = value if _HEADER_SAFE.fullmatch(value) else ""
                elif name == "retry" and value.isascii() and value.isdecimal():
                    self.retry_s = max(_LEAST_RETRY_S, int(value[:9]) / 1000)
                elif not line:
                    if text := "\n".join(data).strip():
                        yield text
                    data = []
