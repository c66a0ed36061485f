"""Parses the first message of a TLS connection up to its server name (RFC 8446, 4.1.2; RFC 6066, 3).

Hand-written, because Python's ssl module reports a client's server name only to a server that completes the handshake.
"""

from __future__ import annotations

from dataclasses import dataclass

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _HOST_NAME = 0, 0
_RECORD_BYTES = 5
_MAX_RECORD, _MAX_RECORDS = 1 << 14, 16  # clients send one record; each new piece causes all of them to be parsed again

# a fatal alert, which client libraries report as "unrecognised name"
ALERT_UNRECOGNISED_NAME = b"\x15\x03\x01\x00\x02\x02\x70"


@dataclass(frozen=True, slots=True)
class ClientHello:
    """The relevant part of the message. `server_name` is None if the client names no server."""

    server_name: str | None


class _Cursor:
    """Reads a message from its start. Reading past the end raises ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def take(self, count: int) -> bytes:
        piece = self._data[self._position : self._position + count]
        if len(piece) < count:
            raise ValueError("a TLS message that is shorter than its stated length")
        self._position += count
        return piece

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> _Cursor:
        return _Cursor(self.take(self.number(width)))

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._position)

    @property
    def more(self) -> bool:
        return self._position < len(self._data)


def read_client_hello(data: bytes) -> ClientHello | None:
    """Return the message at the start of a stream, or None if it has not arrived completely.

    Raises: ValueError if the stream begins with anything else, or names several servers.
    """
    message = b""
    position = records = 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        head = data[position : position + _RECORD_BYTES]
        if not bytes([_HANDSHAKE, 3]).startswith(head[:2]):
            raise ValueError("data that is not TLS")
        if len(head) < _RECORD_BYTES:
            return None
        length = int.from_bytes(head[3:], "big")
        if not 0 < length <= _MAX_RECORD:
            raise ValueError(f"a TLS record of {length} bytes, which is not a valid length")
        piece = data[position + _RECORD_BYTES : position + _RECORD_BYTES + length]
        message += piece
        if message[:1] != bytes([_CLIENT_HELLO]) and message:
            raise ValueError("a TLS message that is not a client hello")
        if len(piece) < length:
            return None
        position, records = position + _RECORD_BYTES + length, records + 1
        if records > _MAX_RECORDS:
            raise ValueError(f"a TLS client hello in more than {_MAX_RECORDS} records")
    return ClientHello(_server_name(_Cursor(message[4 : 4 + int.from_bytes(message[1:4], "big")])))


def _server_name(hello: _Cursor) -> str | None:
    hello.take(2 + 32)  # version, random
    for width in (1, 2, 1):  # session id, ciphers, compressions
        hello.vector(width)
    names: list[str] = []
    extensions = hello.vector(2) if hello.more else _Cursor(b"")
    while extensions.more:
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == _SERVER_NAME:
            entries = body.vector(2)
            while entries.more:
                if entries.number(1) != _HOST_NAME:
                    raise ValueError("a TLS server name that is not a host name")
                names.append(entries.vector(2).rest().decode("ascii"))
    if len(names) > 1:
        raise ValueError(f"a TLS client hello with {len(names)} server names, where one is allowed")
    return names[0] if names else None
