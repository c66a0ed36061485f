"""Runs inside the sandbox: the PostgreSQL frontend protocol, version 3, over a Unix socket, reduced to what a guest
needs.

Uses only the standard library. Source: PostgreSQL documentation, chapter "Frontend/Backend Protocol". The extended
query is used throughout: it runs one statement at a time, and stops after a given number of rows.
"""

from __future__ import annotations

import socket
import struct
import time

MAX_MESSAGE = 1_000_000  # maximum bytes of a row; a longer row is skipped
CANCEL_S = 3.0


class ServerError(Exception):
    """The server refused a statement; `code` is its SQLSTATE."""

    def __init__(self, message: str, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


class Lost(Exception):
    """The connection ended: the server stopped, or closed it."""


class QueryReply:
    """A statement's result: `columns` as (name, type), `rows` of bytes or None, its `tag`, if `more` rows exist."""

    def __init__(self) -> None:
        self.columns: list[tuple[str, int]] | None = None
        self.rows: list[list[bytes | None]] = []
        self.tag, self.more, self.too_long, self.cancelled = "", False, False, False


class PostgresConnection:
    """One session of a user. `status` is I outside a transaction, T inside one, E inside a failed one."""

    def __init__(self, path: str, user: str, database: str, timeout_s: float = 10.0) -> None:
        self._path = path
        self._deadline = time.monotonic() + timeout_s
        self.status = ""
        self._key = b""
        self._socket = self._dial()
        self._buffer = b""
        options = b"".join(part.encode() + b"\0" for part in ("user", user, "database", database))
        self._socket.sendall(_framed(b"", struct.pack(">I", 196608) + options + b"\0"))
        self._read_until_ready(QueryReply())

    def execute(self, sql: str, most: int = 0, timeout_s: float = 60.0) -> QueryReply:
        """Run one statement and read at most `most` rows; 0 for all.

        Raises: ServerError with the server's message, also after `timeout_s`, when the statement is cancelled; Lost.
        """
        text = sql.encode("utf-8", "replace")
        if b"\0" in text:
            raise ServerError("the statement holds a null character")
        self._deadline = time.monotonic() + timeout_s
        reply = QueryReply()
        try:
            self._socket.sendall(
                _framed(b"P", b"\0" + text + b"\0" + struct.pack(">H", 0))
                + _framed(b"B", b"\0\0" + struct.pack(">HHH", 0, 0, 0))
                + _framed(b"D", b"P\0")
                + _framed(b"E", b"\0" + struct.pack(">I", most))
                + _framed(b"S", b"")
            )
        except OSError as error:
            raise Lost(str(error)) from error
        self._read_until_ready(reply)
        return reply

    def close(self) -> None:
        self._socket.close()

    def _dial(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CANCEL_S)
        try:
            connection.connect(self._path)
        except OSError as error:
            connection.close()
            raise Lost(str(error)) from error
        return connection

    def _read_until_ready(self, reply: QueryReply) -> None:
        failed: ServerError | None = None
        while True:
            kind, body = self._message(reply)
            if kind == b"Z":
                self.status = body.decode()
                if failed is not None:
                    raise failed
                return
            if kind == b"K":
                self._key = body
            elif kind == b"R" and body != b"\0\0\0\0":
                raise Lost("the server asks for a password")
            elif kind == b"T":
                reply.columns = _columns(body)
            elif kind == b"D":
                reply.rows.append(_values(body))
            elif kind == b"C":
                reply.tag = body.rstrip(b"\0").decode("utf-8", "replace")
            elif kind == b"s":
                reply.more, reply.tag = True, "SELECT"
            elif kind == b"G":  # answer to COPY FROM STDIN, for which there is nothing to send
                self._socket.sendall(_framed(b"f", b"no data\0") + _framed(b"S", b""))
            elif kind == b"E":
                fields = {part[:1]: part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}
                message = fields.get(b"M", "unknown error")
                if fields.get(b"S") in ("FATAL", "PANIC"):
                    raise Lost(message)
                failed = ServerError(message, fields.get(b"C", ""), fields.get(b"H", ""))

    def _message(self, reply: QueryReply) -> tuple[bytes, bytes]:
        head = self._take(5, reply)
        length = struct.unpack(">I", head[1:])[0] - 4
        if length <= MAX_MESSAGE:
            return head[:1], self._take(length, reply)
        reply.too_long = True
        while length:
            length -= len(self._take(min(length, 65_536), reply))
        return b"", b""

    def _take(self, count: int, reply: QueryReply) -> bytes:
        while len(self._buffer) < count:
            self._socket.settimeout(max(0.01, self._deadline - time.monotonic()))
            try:
                piece = self._socket.recv(262_144)
            except TimeoutError as error:
                if reply.cancelled:
                    raise Lost("the server did not stop") from error
                self._cancel(reply)
                continue
            except OSError as error:
                raise Lost(str(error)) from error
            if not piece:
                raise Lost("the server ended the connection")
            self._buffer += piece
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def _cancel(self, reply: QueryReply) -> None:
        reply.cancelled = True
        self._deadline = time.monotonic() + CANCEL_S
        with self._dial() as other:
            other.sendall(_framed(b"", struct.pack(">I", 80877102) + self._key))


def _framed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


def _columns(body: bytes) -> list[tuple[str, int]]:
    (count,) = struct.unpack_from(">H", body)
    columns, offset = [], 2
    for _ in range(count):
        end = body.index(b"\0", offset)
        (kind,) = struct.unpack_from(">I", body, end + 7)
        columns.append((body[offset:end].decode("utf-8", "replace"), kind))
        offset = end + 19
    return columns


def _values(body: bytes) -> list[bytes | None]:
    (count,) = struct.unpack_from(">H", body)
    values: list[bytes | None] = []
    offset = 2
    for _ in range(count):
        (length,) = struct.unpack_from(">i", body, offset)
        offset += 4
        values.append(None if length < 0 else body[offset : offset + length])
        offset += max(length, 0)
    return values
