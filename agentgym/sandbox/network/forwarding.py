"""Selects the forwarded parts of an HTTP message: its data, joined, and the end-to-end headers."""

from __future__ import annotations

from typing import Any

import h11

Headers = list[tuple[bytes, bytes]]

FRAMING = {b"content-length", b"transfer-encoding"}
_HOP_BY_HOP = set(
    b"connection proxy-connection proxy-authorization proxy-authenticate keep-alive te trailer upgrade".split()
) | {b"expect", b"host"}

_EVENTS_AT_ONCE = 64  # HTTP events handled before other tasks get a turn: a millisecond of the loop's time


def next_event(side: h11.Connection) -> tuple[bytes, Any]:
    """Return the data received so far, joined, and the event after it; None if there may be more data.

    A message in small pieces thus costs one send, not one per piece. Raises: h11.RemoteProtocolError.
    """
    pieces: list[bytes] = []
    for _ in range(_EVENTS_AT_ONCE):
        event = side.next_event()
        if not isinstance(event, h11.Data):
            return b"".join(pieces), event
        pieces.append(event.data)
    return b"".join(pieces), None


def end_to_end(headers: Any) -> Headers:
    """Return the end-to-end headers, without hop-by-hop ones."""
    words = [word for name, value in headers if name == b"connection" for word in value.split(b",")]
    hop = _HOP_BY_HOP | ({word.strip().lower() for word in words} - FRAMING)
    return [(name, value) for name, value in headers if name not in hop]
