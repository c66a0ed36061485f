"""Bounds how often a sandbox can wake the host: what arrives in crumbs is awaited a little, and read at once.

Sending a byte costs a sandbox a microsecond, and receiving it alone costs the host's event loop forty.
"""

from __future__ import annotations

_FREE_READS = 64  # of a message, whatever their size
_FULL_READ = 4096  # bytes of a read that costs nothing
_PAUSE_S = 0.002


class ReadPace:
    """The reads of one message: a few small ones are free, each further one is followed by a pause."""

    def __init__(self) -> None:
        self._small_reads = 0

    def pause_s(self, count: int) -> float:
        """Seconds to wait after a read of `count` bytes that has not completed the message; mostly 0."""
        if count >= _FULL_READ:
            return 0.0
        self._small_reads += 1
        return _PAUSE_S if self._small_reads > _FREE_READS else 0.0

    def restart(self) -> None:
        """A message is complete: the next one has its own free reads."""
        self._small_reads = 0
