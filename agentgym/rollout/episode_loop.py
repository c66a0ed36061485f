"""The event loop of a run's episodes.

It runs in the caller's thread or, while the caller computes, in a thread of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class EpisodeLoop:
    """Runs coroutines for synchronous callers. Each object has one event loop for its lifetime."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._loop: asyncio.AbstractEventLoop | None = None  # set while the loop runs in its own thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, with the caller's context variables. Raises: the coroutine's error."""
        if self._loop is None:
            return self._runner.run(work, context=copy_context())  # by default it would be that of the first call
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine, with the caller's context variables, and return at once. Only within `in_thread`."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Run the loop in its own thread inside the block. The caller must end all coroutines before leaving."""
        is_running, stop = Event(), asyncio.Event()

        async def serve() -> None:
            is_running.set()
            await stop.wait()

        thread = Thread(target=self._runner.run, args=(serve(),), name="agentgym-episodes")
        loop = self._runner.get_loop()
        thread.start()
        is_running.wait()
        self._loop = loop
        try:
            yield
        finally:
            self._loop = None
            loop.call_soon_threadsafe(stop.set)
            thread.join()

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the episodes' thread: the objects that episodes use are not thread-safe."""

        async def called() -> T:
            return function()

        return self.run(called())

    def close(self) -> None:
        """Close the loop."""
        self._runner.close()
