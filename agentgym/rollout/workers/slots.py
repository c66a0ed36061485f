"""How many episodes are played at once, by all runs that share an event loop."""

from __future__ import annotations

from collections.abc import Callable


class Slots:
    """Each episode that is being played holds a slot. Where none is free, the run that asked first gets the next.

    Used on one event loop; nothing here is for several threads.
    """

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._waiting: list[Callable[[], None]] = []

    @property
    def taken(self) -> int:
        """How many are held: episodes that are being played."""
        return self._count - self._free

    def take(self) -> bool:
        """Take a slot. Returns: False if none is free."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Give a slot back, and ask those who wait, the first one first."""
        self._free += 1
        for ask in list(self._waiting):
            if not self._free:
                return
            ask()

    def wait(self, ask: Callable[[], None]) -> None:
        """Have `ask` called whenever a slot is free, until `leave`."""
        if ask not in self._waiting:
            self._waiting.append(ask)

    def leave(self, ask: Callable[[], None]) -> None:
        """Wait no longer."""
        if ask in self._waiting:
            self._waiting.remove(ask)
