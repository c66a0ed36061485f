"""A small event loop over epoll: descriptors and what to do when one is ready."""

from __future__ import annotations

import select
from collections.abc import Callable

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Poller:
    """Calls a descriptor's handler when it becomes readable (or writable, as asked)."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], object]] = {}

    def add(self, descriptor: int, handler: Callable[[], object], events: int = READ) -> None:
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def change(self, descriptor: int, events: int) -> None:
        self._poll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor; nothing happens if it is not watched. Call before closing it."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def close(self) -> None:
        self._poll.close()

    def once(self, timeout_s: float | None) -> None:
        """Wait for events, at most `timeout_s`, and run their handlers."""
        ready = [(descriptor, self._handlers.get(descriptor)) for descriptor, _ in self._poll.poll(timeout_s)]
        for descriptor, handler in ready:
            # an earlier handler of this round may have closed it, and opened another of the same number
            if handler is not None and self._handlers.get(descriptor) is handler:
                handler()
