"""The event loop of a run's episodes: in the caller's thread, or in one of its own while the caller computes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class EpisodeLoop:
    """Runs coroutines for callers that are not async. There is one loop as long as this lives."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._loop: asyncio.AbstractEventLoop | None = None  # set while it runs in its own thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end. Raises: what it raises."""
        if self._loop is None:
            return self._runner.run(work)
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Let something run while the caller goes on, in the context of the caller. Only within `in_thread`."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Inside, the loop runs in a thread of its own. What still runs on leaving is the caller's to have ended."""
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
        """Call something where the episodes run, as what they use must not be used in two threads at once."""

        async def called() -> T:
            return function()

        return self.run(called())

    def close(self) -> None:
        """Close the loop."""
        self._runner.close()
