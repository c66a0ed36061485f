"""A small event loop over epoll: calls a descriptor's handler when it is ready, and waits for ended children."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from . import kernel

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Poller:
    """Calls the handler of a descriptor when it becomes readable or, if requested, writable."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._handlers: dict[int, Callable[[], object]] = {}

    def add(self, descriptor: int, handler: Callable[[], object], events: int = READ) -> None:
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def change(self, descriptor: int, events: int) -> None:
        self._poll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Stop watching a descriptor before it is closed. Ignore an unwatched descriptor."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def close(self) -> None:
        self._poll.close()

    def once(self, timeout_s: float | None) -> None:
        """Wait for events for at most `timeout_s` seconds, or without limit if it is None, and run their handlers."""
        ready = [(descriptor, self._handlers.get(descriptor)) for descriptor, _ in self._poll.poll(timeout_s)]
        for descriptor, handler in ready:
            # an earlier handler may have closed this descriptor and opened another one with the same number
            if handler is not None and self._handlers.get(descriptor) is handler:
                handler()


def run_in_child(poller: Poller, work: Callable[[], None]) -> None:
    """Run `work` in a fork of this process. Raises: OSError if no process can be started."""
    pid = os.fork()
    if pid == 0:
        try:
            kernel.die_with_parent()
            work()
        finally:
            os._exit(0)
    reap_later(poller, pid)


def reap_later(poller: Poller, pid: int) -> None:
    """Register a child that is to be waited for once it has ended."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # no descriptor is free: wait for the child now
        os.waitpid(pid, 0)
        return

    def reap() -> None:
        poller.remove(handle)
        os.close(handle)
        os.waitpid(pid, 0)

    poller.add(handle, reap)
