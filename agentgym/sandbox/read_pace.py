"""Bounds the processor time that a sandbox's output costs the host, by waiting a little before many small reads.

Sending a single byte costs a sandbox a microsecond. Receiving the byte costs the host's event loop 40 microseconds,
plus half a microsecond for each further piece that waits: the kernel stores each sent piece separately, and one call
receives many. So each read is charged by the time that it took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_READ_S = 40e-6  # event loop time per read
_BYTE_S = 5e-9  # unthrottled time per byte: fifty times the cost of a byte in a large piece
_FREE_S = 2.5e-3  # unthrottled time per message: enough for about sixty small reads
_REST = 9  # seconds of rest per second of reading beyond the unthrottled time: reading takes a tenth of a processor


class ReadPace:
    """The cost of reading one message. Fast reads are free, as are a few small ones."""

    def __init__(self) -> None:
        self._spent_s = 0.0

    def charge(self, count: int, spent_s: float) -> None:
        """Charge a read of `count` bytes that took `spent_s` seconds of processor time."""
        self._spent_s = max(0.0, self._spent_s + _READ_S + spent_s - count * _BYTE_S)

    def pause_s(self) -> float:
        """Return the seconds to wait before the next read of an incomplete message; mostly 0."""
        owed_s, self._spent_s = self._spent_s - _FREE_S, min(self._spent_s, _FREE_S)
        return _REST * owed_s if owed_s > 0 else 0.0

    def restart(self) -> None:
        """Record that a message is complete. The next message has its own free reads."""
        self._spent_s = 0.0


async def next_piece(read: Callable[[], bytes], descriptor: int, pace: ReadPace) -> bytes:
    """Return the next bytes from a descriptor, at the given pace.

    Args:
        read: must not block. It may raise any error.
    """
    if pause_s := pace.pause_s():
        await asyncio.sleep(pause_s)
    while True:
        began = time.thread_time()
        try:
            piece = read()
        except (BlockingIOError, InterruptedError):
            await _readable(descriptor)
            continue
        pace.charge(len(piece), time.thread_time() - began)
        return piece


async def _readable(descriptor: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
