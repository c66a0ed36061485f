"""A lock that separates forward passes with a model's weights from replacements of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock


class SwapLock:
    """Lets weights be replaced between two forward passes, without waiting for a batch to end.

    Each forward pass takes the lock, and a waiting replacement goes before the next pass. Python's own lock is not
    fair: a loop that takes it again at once could make a replacement wait until the loop ends.
    """

    def __init__(self) -> None:
        self._lock, self._no_replacement = Lock(), Event()
        self._no_replacement.set()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Keep the weights unchanged inside this context, which is held for one forward pass."""
        self._no_replacement.wait()
        with self._lock:
            yield

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """Exclude all forward passes inside this context; one thread at a time."""
        self._no_replacement.clear()
        try:
            with self._lock:
                yield
        finally:
            self._no_replacement.set()
