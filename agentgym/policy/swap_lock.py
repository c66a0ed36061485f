"""Turns for those who compute with a model's weights and for whoever replaces them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock


class SwapLock:
    """Lets weights be replaced between two forward passes, without waiting for a batch to end.

    Whoever computes takes the lock for each forward pass; a replacement goes before the next one. Python's own lock
    has no order: a loop that takes it again at once could keep a replacement waiting for as long as it runs.
    """

    def __init__(self) -> None:
        self._lock, self._no_replacement = Lock(), Event()
        self._no_replacement.set()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Inside, the weights stay as they are. Held for one forward pass."""
        self._no_replacement.wait()
        with self._lock:
            yield

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Inside, nobody computes. One thread at a time."""
        self._no_replacement.clear()
        try:
            with self._lock:
                yield
        finally:
            self._no_replacement.set()
