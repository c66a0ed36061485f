"""How host and guest talk: frames over a stream socket.

A frame is two 32-bit big-endian lengths, then a JSON object (the header) and raw bytes (the blob).
The host takes every frame from a guest for hostile: it is bounded before it is stored, and checked field by field.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

PREFIX = struct.Struct(">II")
MAX_HEADER_BYTES = 65_536  # of a reply; requests come from the host and are not bounded by this
HOST_SOCKET = 3  # where the spawner finds its socket
PROXY_ADDRESS = ("127.0.0.1", 3128)  # inside a sandbox with a network: where programs find the host's proxy
MAX_DATAGRAM = 1 << 17  # one order to the spawner
# Of an interpreter that will be forked: the linker looks up every function once at its start, not in each child anew.
LINKED = {"LD_BIND_NOW": "1"}
RESET, GO = b"reset", b"g"  # what a host says on a lifeline: make ready for a reset; now
READ_BYTES = 1 << 16  # at once from a stream; for a larger buffer malloc would map memory anew for every read
INLINE_BYTES = 1 << 20  # larger contents travel as a descriptor beside the frame, never through the guest's memory
_ENCODER = json.JSONEncoder(separators=(",", ":"))
# The guest is forked for every call, and then pays for every object that it looks at: hence the heart of the decoder
# alone, and numbers that are no enumerations.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_CLOSED_ON_EXEC, _RIGHTS = int(socket.MSG_CMSG_CLOEXEC), (int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS))
_DESCRIPTOR = struct.Struct("i")
_ROOM = tuple(socket.CMSG_LEN(4 * count) for count in range(9))


class FrameError(ValueError):
    """The other side sent something that is no frame, or a larger one than was asked for."""


def encode(header: dict[str, Any], blob: bytes = b"") -> bytes:
    head = _ENCODER.encode(header).encode()
    return joined(head, blob)


def joined(head: bytes, blob: bytes | bytearray) -> bytes:
    """A frame of a header that is JSON already."""
    return PREFIX.pack(len(head), len(blob)) + head + blob


def receive(stream: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Read at most `size` bytes and `most` descriptors, none of which a program that is started later inherits.

    Not `socket.recv_fds`, which takes flags but passes none on: descriptors of one request would be open in the
    processes of another that runs at the same time. Raises: OSError, as `recv` does.
    """
    data, ancillary, _, _ = stream.recvmsg(size, _ROOM[most], _CLOSED_ON_EXEC)
    return data, _passed(ancillary)


def receive_into(stream: socket.socket, place: bytearray, most: int) -> tuple[int, list[int]]:
    """As `receive`, to where the caller says. Returns: how many bytes, and the descriptors."""
    count, ancillary, _, _ = stream.recvmsg_into([place], _ROOM[most], _CLOSED_ON_EXEC)
    return count, _passed(ancillary)


def _passed(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    descriptors: list[int] = []
    for level, kind, passed in ancillary:
        if (level, kind) == _RIGHTS:
            for start in range(0, len(passed) - 3, 4):
                descriptors += _DESCRIPTOR.unpack_from(passed, start)
    return descriptors


class FrameReader:
    """Cuts a byte stream into frames; never holds more than one frame of the largest allowed size, and one read."""

    def __init__(self, max_header: int, max_blob: int) -> None:
        self.max_header, self.max_blob = max_header, max_blob
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[dict[str, Any], bytes] | None:
        """The next complete frame. Raises: FrameError for one that is malformed or too large."""
        buffer = self._buffer
        if len(buffer) < PREFIX.size:
            return None
        head, blob = PREFIX.unpack_from(buffer)
        if head > self.max_header or blob > self.max_blob:
            raise FrameError(f"a frame of {head} + {blob} bytes; {self.max_header} + {self.max_blob} are allowed")
        start, end = PREFIX.size + head, PREFIX.size + head + blob
        if len(buffer) < end:
            return None
        try:
            text = buffer[PREFIX.size : start].decode()
            header, used = _scan(text, 0)
        except (ValueError, RecursionError, StopIteration) as error:
            raise FrameError(f"a header that is no JSON ({error})") from error
        if used != head:
            raise FrameError(f"a header that is no JSON: {head - used} more bytes after it")
        if not isinstance(header, dict):
            raise FrameError(f"a header that is a {type(header).__name__}, not an object")
        body = bytes(buffer[start:end])
        del buffer[:end]
        return header, body
