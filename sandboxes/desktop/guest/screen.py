"""The virtual screen's memory as a PNG. Xvfb keeps it in a file in the format of xwd (X11/XWDFile.h)."""

from __future__ import annotations

import struct
import zlib

HEADER_WORDS = 25


def read_screen(path: str) -> tuple[int, int, bytes]:
    """Return width, height and RGB bytes of a frame buffer file. Raises: ValueError unless it has 32 bits per pixel."""
    with open(path, "rb") as file:
        raw = file.read()
    if len(raw) < 4 * HEADER_WORDS:
        raise ValueError("the frame buffer is too short")
    words = struct.unpack(f">{HEADER_WORDS}I", raw[: 4 * HEADER_WORDS])
    header, version, width, height = words[0], words[1], words[4], words[5]
    order, bits, line, colours = words[7], words[11], words[12], words[19]
    start = header + 12 * colours
    if version != 7 or bits != 32 or order != 0 or len(raw) < start + line * height:
        raise ValueError("the frame buffer is not in the expected format")
    rgb = bytearray(3 * width * height)
    if line == 4 * width:
        body = raw[start : start + line * height]
    else:
        body = b"".join(raw[start + y * line : start + y * line + 4 * width] for y in range(height))
    rgb[0::3], rgb[1::3], rgb[2::3] = body[2::4], body[1::4], body[0::4]
    return width, height, bytes(rgb)


def png(width: int, height: int, rgb: bytes) -> bytes:
    """Return a PNG file of 8-bit RGB."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    rows = b"".join(b"\0" + rgb[3 * width * y : 3 * width * (y + 1)] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")
