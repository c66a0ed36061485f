"""The wire format between host and guest: frames over a stream socket.

A frame is two 32-bit big-endian lengths, then a JSON object (the header) and raw bytes (the blob). The host treats
every frame from a guest as hostile: its size is bounded before it is stored, and each field is checked.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

PREFIX = struct.Struct(">II")
MAX_HEADER_BYTES = 65_536  # largest header of a reply; requests come from the host and are not bounded by this
HOST_SOCKET = 3  # the descriptor of the spawner's socket to the host
PROXY_ADDRESS = ("127.0.0.1", 3128)  # address of the host's proxy, inside a sandbox with a network
RELAY_ADDRESS = ("127.0.0.1", 3129)  # address inside a sandbox that is relayed to one address of the host
MAX_DATAGRAM = 1 << 17  # largest request to the spawner, in bytes
# The interpreter will be forked: link all functions at its start, not again in each child.
LINKED = {"LD_BIND_NOW": "1"}
READ_BYTES = 1 << 16  # for a larger buffer, malloc would call mmap at every read
INLINE_BYTES = 1 << 20  # larger contents travel as a descriptor beside the frame, never through the guest's memory
_ENCODER = json.JSONEncoder(separators=(",", ":"))
# The guest is forked for every call, and each object it touches costs a page copy: hence the bare scanner of the JSON
# decoder, and plain integers instead of enumerations.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_CLOSED_ON_EXEC, _RIGHTS = int(socket.MSG_CMSG_CLOEXEC), (int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS))
_DESCRIPTOR = struct.Struct("i")
_ANCILLARY_SIZES = tuple(socket.CMSG_LEN(4 * count) for count in range(65))


class FrameError(ValueError):
    """The other side sent something that is not a frame, or a frame that is too large."""


def encode(header: dict[str, Any], blob: bytes = b"") -> bytes:
    head = _ENCODER.encode(header).encode()
    return joined(head, blob)


def joined(head: bytes, blob: bytes | bytearray) -> bytes:
    """Return a frame from a header that is already JSON text."""
    return PREFIX.pack(len(head), len(blob)) + head + blob


def receive(stream: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Read at most `size` bytes and `most` descriptors, which programs started later do not inherit.

    `socket.recv_fds` is not used because it ignores its flags: descriptors of one request would be inherited by the
    processes of another that runs at the same time. Raises: OSError, as `recv` does.
    """
    data, ancillary, _, _ = stream.recvmsg(size, _ANCILLARY_SIZES[most], _CLOSED_ON_EXEC)
    return data, _passed(ancillary)


def receive_into(stream: socket.socket, buffer: bytearray, most: int) -> tuple[int, list[int]]:
    """Receive into a buffer. Returns: the number of bytes, and the descriptors."""
    count, ancillary, _, _ = stream.recvmsg_into([buffer], _ANCILLARY_SIZES[most], _CLOSED_ON_EXEC)
    return count, _passed(ancillary)


def _passed(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    descriptors: list[int] = []
    for level, kind, passed in ancillary:
        if (level, kind) == _RIGHTS:
            for start in range(0, len(passed) - 3, 4):
                descriptors += _DESCRIPTOR.unpack_from(passed, start)
    return descriptors


class FrameReader:
    """Cuts a byte stream into frames. Holds at most one frame of the largest allowed size plus one read."""

    def __init__(self, max_header: int, max_blob: int) -> None:
        self.max_header, self.max_blob = max_header, max_blob
        self._buffer = bytearray()

    @property
    def has_part(self) -> bool:
        """Whether part of a frame has arrived."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[dict[str, Any], bytes] | None:
        """Return the next complete frame; None if it has not arrived.

        Raises: FrameError if it is malformed or too large.
        """
        buffer = self._buffer
        if len(buffer) < PREFIX.size:
            return None
        head, blob = PREFIX.unpack_from(buffer)
        if head > self.max_header or blob > self.max_blob:
            raise FrameError(
                f"a frame of {head} header bytes and {blob} data bytes, where at most {self.max_header} and "
                f"{self.max_blob} are allowed"
            )
        start, end = PREFIX.size + head, PREFIX.size + head + blob
        if len(buffer) < end:
            return None
        try:
            text = buffer[PREFIX.size : start].decode()
            header, used = _scan(text, 0)
        except (ValueError, RecursionError, StopIteration) as error:
            raise FrameError(f"a frame whose header is not JSON ({error})") from error
        if used != head:
            raise FrameError(f"a frame whose header is not JSON: {head - used} more bytes follow the JSON value")
        if not isinstance(header, dict):
            raise FrameError(f"a frame whose header is a {type(header).__name__}, not a JSON object")
        body = bytes(buffer[start:end])
        del buffer[:end]
        return header, body
