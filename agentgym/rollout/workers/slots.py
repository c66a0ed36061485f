"""Limit how many episodes are played at once, by all runs that share an event loop."""

from __future__ import annotations

from collections.abc import Callable


class Slots:
    """A pool of slots, one per running episode. If none is free, the run that asked first gets the next.

    For use on one event loop; not thread-safe.
    """

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._waiting: list[Callable[[], None]] = []

    @property
    def taken(self) -> int:
        """The number of slots in use."""
        return self._count - self._free

    def take(self) -> bool:
        """Take a slot. Returns: False if none is free."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def release(self) -> None:
        """Release a slot, and call the waiting runs in the order in which they asked."""
        self._free += 1
        for ask in list(self._waiting):
            if not self._free:
                return
            ask()

    def wait(self, ask: Callable[[], None]) -> None:
        """Call `ask` whenever a slot becomes free, until `leave`."""
        if ask not in self._waiting:
            self._waiting.append(ask)

    def leave(self, ask: Callable[[], None]) -> None:
        """Stop calling `ask`."""
        if ask in self._waiting:
            self._waiting.remove(ask)
