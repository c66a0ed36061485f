"""Bounds the processor time that output of a sandbox costs the host: crumbs are awaited a little, and read at once.

Sending a byte costs a sandbox a microsecond. Receiving it alone costs the host's event loop forty, and half a one more
for each of many that wait: the kernel keeps every piece that was sent by itself, and one call receives what is sent
meanwhile, too. So reads are charged by the time that they took.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_READ_S = 40e-6  # of the event loop, for each read
_BYTE_S = 5e-9  # that a byte may take: fifty times what one of a large piece does
_FREE_S = 2.5e-3  # of a message: some sixty small reads
_REST = 9  # seconds to rest for each second beyond: a tenth of a processor


class ReadPace:
    """The reads of one message: what is read fast is free, and so are a few small reads."""

    def __init__(self) -> None:
        self._spent_s = 0.0

    def charge(self, count: int, spent_s: float) -> None:
        """Note a read of `count` bytes that took so much processor time."""
        self._spent_s = max(0.0, self._spent_s + _READ_S + spent_s - count * _BYTE_S)

    def pause_s(self) -> float:
        """Seconds to wait before the next read of a message that is not complete; mostly 0."""
        owed_s, self._spent_s = self._spent_s - _FREE_S, min(self._spent_s, _FREE_S)
        return _REST * owed_s if owed_s > 0 else 0.0

    def restart(self) -> None:
        """Note that a message is complete: the next one has its own free reads."""
        self._spent_s = 0.0


async def next_piece(read: Callable[[], bytes], descriptor: int, pace: ReadPace) -> bytes:
    """Return what arrives next on a descriptor, at its pace.

    Args:
        read: must not block. It may raise what it likes.
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
